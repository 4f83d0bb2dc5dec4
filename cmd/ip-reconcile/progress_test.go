package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgressIsShownOnlyToWhoWaitsLongerThanTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen strings.Builder
		p := &progress{w: &screen}
		stop := p.start()
		p.say("reading the cluster…")
		time.Sleep(patience - time.Millisecond)
		synctest.Wait()
		if screen.Len() > 0 {
			t.Errorf("shown before its time: %q", screen.String())
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		p.say("releasing")
		stop()
		if got := screen.String(); !strings.Contains(got, "reading the cluster…") || !strings.Contains(got, "releasing") || !strings.HasSuffix(got, "\r\x1b[K") {
			t.Errorf("shown: %q; want both texts, and the line cleared at the end", got)
		}
	})
}

func TestProgressOfAQuickCommandLeavesNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen strings.Builder
		p := &progress{w: &screen}
		stop := p.start()
		p.say("reading the cluster…")
		stop()
		time.Sleep(2 * patience)
		synctest.Wait()
		if screen.Len() > 0 {
			t.Errorf("shown: %q", screen.String())
		}
	})
}
