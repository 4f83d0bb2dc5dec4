package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgressIsShownOnlyToWhoWaitsLongerThanTwoSeconds(t *testing.T) {
	for _, quick := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var screen strings.Builder
			p := &progress{w: &screen}
			shown := func() string {
				synctest.Wait()
				p.mu.Lock()
				defer p.mu.Unlock()
				return screen.String()
			}
			stop := p.start()
			p.say("reading the cluster…")
			time.Sleep(progressAfter - time.Millisecond)
			if shown() != "" {
				t.Errorf("shown before its time: %q", shown())
			}
			if quick {
				stop()
			}
			time.Sleep(2 * time.Millisecond)
			if quick {
				if shown() != "" {
					t.Errorf("shown of a quick command: %q", shown())
				}
				return
			}
			shown()
			p.say("releasing")
			stop()
			if got := shown(); !strings.Contains(got, "reading the cluster…") || !strings.Contains(got, "releasing") || !strings.HasSuffix(got, "\r\x1b[K") {
				t.Errorf("shown: %q; want both texts, and the line cleared at the end", got)
			}
		})
	}
}
