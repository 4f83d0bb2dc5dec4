package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
)

// asks reports whether a command asks a person before it writes.
func (o *options) asks() bool { return o.in != nil && !o.yes }

// checkConsent returns an error for a command that writes without consent: it has no --yes, and cannot ask.
func (o *options) checkConsent() error {
	if o.writes && !o.yes && o.in == nil {
		return errors.New("nothing was done: without a terminal to ask on, " + o.component + " needs --yes")
	}
	return nil
}

// confirm prints what a command will do, and asks. After anything but a yes it prints what that means, and returns
// errUnresolved.
func (o *options) confirm(ctx context.Context, does, no string, what answer) error {
	d := o.errDisplay
	d.isTerminal = false // nothing of it is cut
	text, w := o.renderScreen(what, d), o.err
	if d.coloured != nil {
		w = d.coloured
	}
	o.progress.Stop()
	_, _ = w.Write(text) // a person who does not see it says no
	if o.ask(ctx, "\n"+strings.ToUpper(does[:1])+does[1:]+"?") {
		return nil
	}
	fmt.Fprintln(o.err, no)
	return errUnresolved
}

// ask asks a person. Without an answer, for example after Ctrl-C, it is a no.
func (std streams) ask(ctx context.Context, question string) (isYes bool) {
	std.progress.Stop()
	fmt.Fprint(std.err, question+" [y/N] ")
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(std.in).ReadString('\n') // what precedes an error counts
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(std.err)
		return false
	case line := <-answer:
		return line == "y" || line == "yes"
	}
}
