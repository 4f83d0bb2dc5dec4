package style

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var (
	anyAction    = regexp.MustCompile(`(?m)^\s*(?:- )?uses: *(.*)$`)
	pinnedAction = regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
)

// A tag of an action may be moved to other code, the digest of a commit may not. The comment has the version.
func TestWorkflows_NameActionsByDigest(t *testing.T) {
	files, err := filepath.Glob(root + "/.github/workflows/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("workflows are %v (%v)", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range anyAction.FindAllStringSubmatch(string(text), -1) {
			if !pinnedAction.MatchString(m[1]) {
				t.Errorf("%s uses %s, want ACTION@DIGEST # vVERSION", file, m[1])
			}
		}
	}
}
