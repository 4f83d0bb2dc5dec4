package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// auditPolicy makes API servers log who wrote pools and reservations, and what: the patch, not the resulting pool.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  verbs: [create, update, patch, delete, deletecollection]
  resources: [{group: whereabouts.cni.cncf.io, resources: [ippools, overlappingrangeipreservations]}]
- level: None
`

// auditFlags are the flags of kube-apiserver that write the log to a path. In the default mode the log is written
// before a request is answered. It appends to an existing file, so API servers may share one.
func auditFlags(dir, path string) ([]string, error) {
	policy := dir + "/audit-policy.yaml"
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := log.Close(); err != nil {
		return nil, err
	}
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + path, "--audit-log-maxsize=10000"},
		os.WriteFile(policy, []byte(auditPolicy), 0o600)
}

// A Write is a write to a pool or a reservation that the API server performed.
type Write struct {
	At            time.Time // when it was performed, to the microsecond, by the API server's clock
	Program, User string    // such as "whereabouts" and "admin"
	Verb          string    // create, update, patch, delete or deletecollection
	Resource      string    // ippools or overlappingrangeipreservations
	Name          string
	Base          uint64   // the version that a patch of a pool tests; 0 for none
	Removed       []string // keys of the allocations that it removed
	Written       []string // keys of those that it added or replaced, whole or in part
}

func (w Write) String() string {
	return fmt.Sprintf("%s %s of %s %s by %s (-%v +%v)", w.At.Format("15:04:05.000"), w.Verb, w.Resource, w.Name,
		w.Program, w.Removed, w.Written)
}

// An AuditLog is read while API servers append to it.
type AuditLog struct {
	path   string
	offset int64
}

// AuditLog is the log of the control plane's API servers from the first write on.
func (c *ControlPlane) AuditLog() *AuditLog { return &AuditLog{path: c.auditLog(), offset: c.audited} }

func (c *ControlPlane) auditLog() string { return c.home.dir + "/audit.log" }

// Next returns the writes since the last call, in the order in which they ended.
func (l *AuditLog) Next() (writes []Write, err error) {
	f, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	more, err := io.ReadAll(io.NewSectionReader(f, l.offset, 1<<40))
	if err != nil {
		return nil, err
	}
	more = more[:bytes.LastIndexByte(more, '\n')+1] // a line may be half written
	l.offset += int64(len(more))
	for line := range bytes.Lines(more) {
		w, did, err := writeOf(line)
		if err != nil {
			return nil, fmt.Errorf("reading the audit log %s: %w: %s", l.path, err, line)
		}
		if did {
			writes = append(writes, w)
		}
	}
	return writes, nil
}

// writeOf reads a line of the log, and reports whether the API server performed the write.
func writeOf(line []byte) (w Write, did bool, err error) {
	var event struct {
		Verb, UserAgent, RequestURI, Stage string
		User                               struct{ Username string }
		ObjectRef                          struct{ Resource, Name string }
		ResponseStatus                     struct{ Code int }
		RequestObject                      json.RawMessage
		StageTimestamp                     time.Time
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return w, false, err
	}
	if strings.Contains(event.RequestURI, "dryRun=") || event.ResponseStatus.Code/100 != 2 {
		return w, false, nil
	}
	w = Write{At: event.StageTimestamp, User: event.User.Username, Verb: event.Verb, Resource: event.ObjectRef.Resource,
		Name: event.ObjectRef.Name}
	w.Program, _, _ = strings.Cut(event.UserAgent, "/")
	if w.Verb == "patch" && w.Resource == "ippools" {
		w.Base, w.Removed, w.Written = patched(event.RequestObject)
	}
	return w, true, nil
}

// patched reads the version that a JSON patch tests, and the keys of the allocations that it or a merge patch names.
func patched(patch []byte) (base uint64, removed, written []string) {
	var operations []struct {
		Op, Path string
		Value    any
	}
	if json.Unmarshal(patch, &operations) == nil {
		for _, o := range operations {
			if o.Op == "test" && o.Path == "/metadata/resourceVersion" {
				base, _ = strconv.ParseUint(fmt.Sprint(o.Value), 10, 64)
			}
			_, entry, found := strings.Cut(o.Path, "/spec/allocations/")
			if !found || o.Op == "test" {
				continue
			}
			key, below, _ := strings.Cut(entry, "/")
			if o.Op == "remove" && below == "" {
				removed = append(removed, key)
			} else if !slices.Contains(written, key) {
				written = append(written, key)
			}
		}
		return base, removed, written
	}
	var merge struct {
		Spec struct{ Allocations map[string]any }
	}
	_ = json.Unmarshal(patch, &merge) // of another form it names none
	for key, e := range merge.Spec.Allocations {
		if e == nil {
			removed = append(removed, key)
		} else {
			written = append(written, key)
		}
	}
	return 0, removed, written
}
