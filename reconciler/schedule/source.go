package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// DefaultFile is where whereabouts v0.9.4 mounts the expression out of its ConfigMap (cmd/reconciler/main.go).
const DefaultFile = "/cron-schedule/config"

// DefaultFlatFiles are the paths of whereabouts' own configuration file, in the order of whereabouts v0.9.4
// (pkg/config/config.go: GetFlatIPAM).
func DefaultFlatFiles() []string {
	return []string{
		"/etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.conf",
		"/etc/cni/net.d/whereabouts.d/whereabouts.conf",
		"/host/etc/cni/net.d/whereabouts.d/whereabouts.conf",
	}
}

// find reads the expression and its source, and does not parse the expression. Only a file that does not exist is
// skipped: an unreadable file is an error, since the next file may have another expression.
func (s *Schedule) find() (source, expression string, err error) {
	if s.Expression != "" {
		return SourceOption, strings.TrimSpace(s.Expression), nil
	}
	for _, file := range append([]string{s.File}, s.FlatFiles...) {
		content, err := os.ReadFile(file)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // or File is ""
			continue
		case err != nil:
			return file, "", fmt.Errorf("cannot be read: %w; make the file readable, or remove it", err)
		case file == s.File:
			return file, strings.TrimSpace(string(content)), nil
		}
		expression, err := fromFlat(content)
		if err == nil && expression == "" {
			return SourceDefault, Default, nil
		}
		return file, expression, err
	}
	return SourceDefault, Default, nil
}

// fromFlat returns the expression in a whereabouts.conf, "" if the field is missing as in releases before v0.6.
func fromFlat(content []byte) (string, error) {
	var flat struct {
		Expression string `json:"reconciler_cron_expression"`
	}
	if err := json.Unmarshal(content, &flat); err != nil {
		return "", fmt.Errorf("cannot be parsed: %w; write JSON with a reconciler_cron_expression such as %q, "+
			"or remove it", err, Default)
	}
	return strings.TrimSpace(flat.Expression), nil
}
