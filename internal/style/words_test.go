package style

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A ban is a word or phrase that comments and texts do without.
type ban struct {
	pattern *regexp.Regexp
	instead string
	product bool // it is banned in the product alone
}

func phrase(pattern, instead string) ban {
	return ban{pattern: regexp.MustCompile(`(?i)\b(` + pattern + `)\b`), instead: instead}
}

var banned = []ban{
	phrase(`told|tells?|teller`, "reports, reported"),
	phrase(`heard|hears?`, "reported, a fresh report"),
	phrase(`word of|say-so`, "reported by"),
	phrase(`looks|a look`, "inspects, inspection, reads"),
	phrase(`left`, "remains, the rest, or name the state"),
	phrase(`ma(kes?|de) (it |them |one )?again`, "recreate"),
	phrase(`cut off`, "unreachable"),
	phrase(`no right|rights? to`, "RBAC forbids, forbidden, may"),
	phrase(`unnoticed|noticed?s?`, "detected, detects"),
	phrase(`there (is|are) no`, "has no, without"),
	phrase(`freed|frees|(gives?|gave|given) (it |them )?back|hand(s|ed)? back`, "releases, released"),
	phrase(`nobody's`, "name the actor"),
	phrase(`lapsed?s?`, "expired, expires"),
	{pattern: regexp.MustCompile(`(^|[.!?] )(Not|Left is|Of what|What is)\b`), instead: "begin with the subject"},
}

// An exception is a text of a defect that is accepted in a file, or in a folder if the path ends with a slash.
type exception struct{ path, text, why string }

var (
	wide = []exception{
		{"ippool/check_test.go", `"metadata": `, "an object of a test"},
		{"ippool/reservation_test.go", "metadata: ", "an object of a test"},
		{"cmd/ip-reconcile/commands.go", "kubectl get ", "a command to paste"},
		{"cmd/ip-reconcile/secrets_test.go", "apiVersion: ", "a file of a test"},
		{"reconciler/snapshot/copies_test.go", "metadata: ", "files of a test"},
		{"reconciler/snapshot/lean_test.go", `{"`, "a file of a test"},
	}
	undocumented = []exception{
		{"api/v1alpha1/types.go", "the comment of text", "it would be the description of each field in the CRD"},
	}
	unknown  []exception
	messages = []exception{
		{"reconciler/serve/recorder.go", "reconciler run", upstream},
		{"cmd/ip-reconciler/main.go", "reconciler run", upstream},
		{"reconciler/serve/recorder.go", "cleanup", upstream},
		{"reconciler/serve/recorder.go", "removed stale", upstream},
	}
	odd []exception
)

const upstream = "whereabouts' own message, for which people search their logs"

// The texts of advice, alerts and the dashboard are in files of YAML.
func TestWords_OfYAML(t *testing.T) {
	files, err := filepath.Glob("../*/*.yaml")
	of, errOf := filepath.Glob("../cli/*/*.yaml")
	if files = append(files, of...); err != nil || errOf != nil || len(files) < 3 {
		t.Fatalf("%v, %v, %v", files, err, errOf)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, b := range banned {
				if word := b.pattern.FindString(line); word != "" {
					t.Errorf("%s:%d: %q in %q: %s", file, i+1, word, line, b.instead)
				}
			}
		}
	}
}
