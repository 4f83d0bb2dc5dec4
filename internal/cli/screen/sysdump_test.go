package screen

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
)

func TestSysdump(t *testing.T) {
	for _, c := range []struct {
		name string
		of   document.Sysdump
		want string
	}{
		{"all", document.Sysdump{Files: []string{"objects-001.json", "status.txt"}},
			"Wrote a.tgz: 2 files.\nJudge it: ip-reconcile check --snapshot a.tgz --all --agents=required\n"},
		{"without the cluster", document.Sysdump{Files: []string{"manifest.json"},
			Missing: []string{"objects: list pods: forbidden", "logs/a.log: refused"}},
			"Wrote a.tgz: 1 file.\n! objects: list pods: forbidden\n! logs/a.log: refused\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &Screen{}
			if s.Sysdump(&c.of, "a.tgz", " --agents=required"); s.String() != c.want {
				t.Errorf("got\n%s\nwant\n%s", s, c.want)
			}
		})
	}
}
