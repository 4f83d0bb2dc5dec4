package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progressAfter is how long a command runs before it shows what it is doing.
const progressAfter = 2 * time.Second

// progress shows one changing line to a person at a terminal.
type progress struct {
	w     io.Writer
	mu    sync.Mutex
	text  string
	shown bool
}

func (p *progress) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
	if p.shown {
		p.draw()
	}
}

func (p *progress) draw() {
	fmt.Fprintf(p.w, "\r\x1b[K%s", p.text)
	p.shown = true
}

func (p *progress) start() (stop func()) {
	timer := time.AfterFunc(progressAfter, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.text != "" {
			p.draw()
		}
	})
	return func() {
		timer.Stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.shown {
			fmt.Fprint(p.w, "\r\x1b[K")
		}
		p.text, p.shown = "", false
	}
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}
