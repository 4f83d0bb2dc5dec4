package schedule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write creates a file and its folders.
func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFind_FirstSourceThatExists(t *testing.T) {
	const flat = `{"datastore": "kubernetes", "reconciler_cron_expression": "%s", "log_level": 7}`
	for name, c := range map[string]struct {
		option             string
		files              map[string]string // by name; "" is a folder
		source, expression string
		err                string
	}{
		"option": {
			option: " @hourly ", files: map[string]string{"config": "@daily"}, source: SourceOption, expression: "@hourly"},
		"file, trimmed": {
			files: map[string]string{"config": "\n 1 1 * * * \r\n", "flat1": flat}, source: "config", expression: "1 1 * * *"},
		"empty file": {
			files: map[string]string{"config": "\n", "flat1": flat}, source: "config", expression: ""},
		"unreadable file": {
			files: map[string]string{"config": "", "flat1": flat}, source: "config", err: "cannot be read"},
		"first flat file": {
			files: map[string]string{"flat1": flat, "flat2": flat}, source: "flat1", expression: "flat1"},
		"second flat file": {
			files: map[string]string{"flat2": flat, "flat3": flat}, source: "flat2", expression: "flat2"},
		"third flat file": {
			files: map[string]string{"flat3": flat}, source: "flat3", expression: "flat3"},
		"flat file without an expression": {
			files:  map[string]string{"flat1": `{"datastore": "kubernetes"}`, "flat2": flat},
			source: SourceDefault, expression: Default},
		"flat file with an empty expression": {
			files:  map[string]string{"flat1": `{"reconciler_cron_expression": " "}`, "flat2": flat},
			source: SourceDefault, expression: Default},
		"invalid JSON": {
			files: map[string]string{"flat1": `{"datastore"`, "flat2": flat}, source: "flat1", err: "cannot be parsed"},
		"expression of another type": {
			files:  map[string]string{"flat1": `{"reconciler_cron_expression": 5}`, "flat2": flat},
			source: "flat1", err: "cannot be parsed"},
		"unreadable flat file": {
			files: map[string]string{"flat1": "", "flat2": flat}, source: "flat1", err: "cannot be read"},
		"no file": {source: SourceDefault, expression: Default},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := Schedule{Expression: c.option, File: filepath.Join(dir, "config")}
			for _, name := range []string{"flat1", "flat2", "flat3"} {
				s.FlatFiles = append(s.FlatFiles, filepath.Join(dir, name))
			}
			for name, content := range c.files {
				if content == "" {
					if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
						t.Fatal(err)
					}
					continue
				}
				write(t, filepath.Join(dir, name), strings.ReplaceAll(content, "%s", name))
			}
			source, expression, err := s.find()
			if got := strings.TrimPrefix(source, dir+"/"); got != c.source || expression != c.expression {
				t.Errorf("got %q from %s, want %q from %s", expression, got, c.expression, c.source)
			}
			if c.err == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got error %v, want %q", err, c.err)
			}
		})
	}
}

func TestFind_FileBelowAFile(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "cron-schedule"), "not a folder")
	for _, s := range []*Schedule{{}, {File: filepath.Join(dir, "cron-schedule", "config")}} {
		if source, expression, err := s.find(); source != SourceDefault || expression != Default || err != nil {
			t.Errorf("file %q: got %q from %s, %v", s.File, expression, source, err)
		}
	}
}
