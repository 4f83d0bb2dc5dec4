package main

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A short wait is silent. A long one has a line each ten seconds where no terminal is.
func TestProgress_LinesElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown strings.Builder
		p := &progress{w: &shown}
		p.Say("Reading the cluster")
		time.Sleep(1900 * time.Millisecond)
		p.Stop()
		time.Sleep(time.Minute)
		p.Say("Reading the cluster")
		time.Sleep(5 * time.Second)
		p.Say("3 unconfirmed\nuntil 10:15:00 UTC\x1b[2J")
		time.Sleep(20 * time.Second)
		fmt.Fprintln(p, "a line of the log")
		p.Stop()
		time.Sleep(time.Minute)
		want := "Reading the cluster (2s so far)\n3 unconfirmed until 10:15:00 UTC [2J (12s so far)\n" +
			"3 unconfirmed until 10:15:00 UTC [2J (22s so far)\na line of the log\n"
		if shown.String() != want {
			t.Errorf("got\n%q, want\n%q", shown.String(), want)
		}
	})
}

// On a terminal there is one line, which is rewritten, never broken, and gone before anything else is printed.
func TestProgress_OneLineOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown strings.Builder
		p := &progress{w: &shown, isTerminal: true, columns: func() int { return 30 }}
		p.Say("Reading")
		time.Sleep(3500 * time.Millisecond)
		fmt.Fprintln(p, "a line of the log")
		p.Say("Taking whereabouts' Leases, until 10:00:20")
		time.Sleep(time.Second)
		p.Stop()
		p.Stop()
		want := "Reading (2s so far)\r\x1b[KReading (3s so far)\r\x1b[Ka line of the log\n" +
			"Taking whereabouts' Leases, …\r\x1b[K"
		if shown.String() != want {
			t.Errorf("got\n%q, want\n%q", shown.String(), want)
		}
	})
}
