package servecmd

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

func TestServe_ChecksTheFenceTimeout(t *testing.T) {
	const longest = restore.LongestFence
	for timeout, isValid := range map[time.Duration]bool{0: true, longest: true, longest + 1: false, -1: false} {
		if err := checkFence(timeout); (err == nil) != isValid {
			t.Errorf("%s: %v", timeout, err)
		}
	}
}
