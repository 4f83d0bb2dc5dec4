package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/border"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
)

const (
	progressAfter      = 2 * time.Second  // how long a command waits in silence
	progressOnTerminal = time.Second      // how often the line is rewritten
	progressElsewhere  = 10 * time.Second // how often there is a line
)

// progress says on stderr what a command waits for, on a terminal in one line, elsewhere in a line from time to time.
// All that is written to stderr goes through it, so that the line is never in the middle of other text. A nil progress
// says nothing.
type progress struct {
	w          io.Writer
	isTerminal bool
	columns    func() int // of the terminal

	mu      sync.Mutex
	text    string // what the command waits for, "" for nothing
	since   time.Time
	timer   *time.Timer
	isShown bool
}

// Say sets what the command waits for.
func (p *progress) Say(text string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.text == "" {
		p.since, p.timer = time.Now(), time.AfterFunc(progressAfter, p.tick)
	}
	p.text = text
}

// Stop ends the wait. It is called before a result or a question is printed.
func (p *progress) Stop() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.text != "" {
		p.timer.Stop()
		p.text = ""
	}
	p.clear()
}

// Write writes to stderr.
func (p *progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	return p.w.Write(text)
}

func (p *progress) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.text == "" {
		return
	}
	line := border.Escape(view.Clean(fmt.Sprintf("%s (%s so far)", p.text, time.Since(p.since).Round(time.Second))))
	if !p.isTerminal {
		fmt.Fprintln(p.w, line)
		p.timer.Reset(progressElsewhere)
		return
	}
	if short, most := []rune(line), p.columns(); most > 0 && len(short) >= most {
		line = string(short[:max(most-2, 0)]) + "…"
	}
	p.clear()
	fmt.Fprint(p.w, line)
	p.isShown = true
	p.timer.Reset(progressOnTerminal)
}

// clear deletes the line from the terminal.
func (p *progress) clear() {
	if p.isShown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.isShown = false
	}
}
