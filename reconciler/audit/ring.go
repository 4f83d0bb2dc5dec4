package audit

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

const Keep = 30 * 24 * time.Hour // how long a record is kept

// The bounds of a Ring.
const (
	Objects     = 8
	perObject   = 625       // records
	maxObject   = 192 << 10 // bytes, which are 256 KiB in JSON
	maxUnpacked = 8 << 20   // bytes of what somebody else may have written
)

var (
	ErrConflict  = errors.New("another process has written the object")
	ErrForbidden = errors.New("forbidden") // by RBAC or an admission policy
	errTooLong   = errors.New("a record is too long")
)

// Store keeps the objects of a Ring. An object that does not exist has no content and no version.
type Store interface {
	Name(object int) string
	Get(ctx context.Context, object int) (content []byte, version string, err error)
	// Put is ErrConflict where the object has another version.
	Put(ctx context.Context, object int, content []byte, version string) error
}

// Ring keeps the last records in objects, of which the oldest is overwritten. Several processes may add to it.
type Ring struct {
	Store
	last uint64   // the number of the last record that this process wrote
	sent [][]byte // the lines of the last Put, if that returned an error: they may have been written all the same
}

type object struct {
	number  int
	version string
	lines   [][]byte
	last    uint64 // the number of the last record that can be read
	err     error  // a part cannot be read
}

// read returns all objects, the newest last.
func (r *Ring) read(ctx context.Context) ([]*object, error) {
	all := make([]*object, Objects)
	for i := range all {
		content, version, err := r.Get(ctx, i)
		if err != nil {
			return nil, err
		}
		o := &object{number: i, version: version}
		o.lines, o.err = unpack(content)
		for _, text := range slices.Backward(o.lines) {
			if l := newLine("", text); l.Err == nil {
				o.last = l.Seq
				break
			}
		}
		all[i] = o
	}
	slices.SortStableFunc(all, func(a, b *object) int { return cmp.Compare(a.last, b.last) })
	return all, nil
}

// Lines returns all records, the newest last.
func (r *Ring) Lines(ctx context.Context) (lines []Line, err error) {
	all, err := r.read(ctx)
	for _, o := range all {
		name := r.Name(o.number)
		for i, text := range o.lines {
			lines = append(lines, newLine(fmt.Sprintf("%s:%d", name, i+1), text))
		}
		if o.err != nil {
			lines = append(lines, Line{Place: name, Err: o.err})
		}
	}
	return lines, err
}

const maxConflicts = 10 // in a row, which end an Append

// Append adds records, and returns those that it did not add, which are the last ones, and how many are too long to be
// added at all. now is the API server's time. A record that was written although the answer was an error is not added
// again by a call that begins with what is left.
func (r *Ring) Append(ctx context.Context, now time.Time, records []Record) (left []Record, tooLong int, err error) {
	records = r.withoutKnownPauses(ctx, now, records)
	for conflicts := 0; len(records) > 0; {
		n, failed := r.appendSome(ctx, now, records)
		switch {
		case failed == nil:
			records, conflicts = records[n:], 0
		case errors.Is(failed, errTooLong):
			records, tooLong, err = records[1:], tooLong+1, failed
		case errors.Is(failed, ErrConflict) && conflicts < maxConflicts:
			conflicts++
		default:
			return records, tooLong, failed
		}
	}
	return nil, tooLong, err
}

// withoutKnownPauses leaves out pauses that a record of the last day has: each run of a CronJob detects them first.
func (r *Ring) withoutKnownPauses(ctx context.Context, now time.Time, records []Record) []Record {
	isKnown, isPause := map[string]bool{}, func(x Record) bool { return x.What == Paused }
	if !slices.ContainsFunc(records, isPause) {
		return records
	}
	lines, _ := r.Lines(ctx) // what cannot be read is not known
	for _, l := range lines {
		if l.What == Paused || l.What == Resumed {
			isKnown[l.Pool] = isPause(l.Record) && l.Time.After(now.Add(-24*time.Hour))
		}
	}
	return slices.DeleteFunc(records, func(x Record) bool {
		if x.What == Resumed {
			isKnown[x.Pool] = false
		}
		return isPause(x) && isKnown[x.Pool]
	})
}

// appendSome adds as many of the first records as one object takes, and returns their number.
func (r *Ring) appendSome(ctx context.Context, now time.Time, records []Record) (int, error) {
	all, err := r.read(ctx)
	if err != nil {
		return 0, err
	}
	oldest, newest := all[0], all[len(all)-1]
	if n := r.arrived(all, records); n > 0 {
		return n, nil
	}
	last := max(newest.last, r.last) // where the last records were removed, their numbers stay missing
	for _, o := range []*object{newest, oldest} {
		kept := o.lines
		for len(kept) > 0 && (o != newest || newLine("", kept[0]).Time.Before(now.Add(-Keep))) {
			kept = kept[1:]
		}
		for n := min(len(records), perObject-len(kept)); n > 0; n /= 2 {
			lines := linesOf(records[:n], last)
			content := pack(append(slices.Clip(kept), lines...))
			if len(content) > maxObject {
				continue
			}
			if err := r.Put(ctx, o.number, content, o.version); err != nil {
				r.sent = lines
				return 0, err
			}
			r.last = last + uint64(n)
			return n, nil
		}
	}
	return 0, errTooLong
}

// arrived returns how many of the first records the last Put has written although it returned an error.
func (r *Ring) arrived(all []*object, records []Record) (n int) {
	sent := r.sent
	r.sent = nil
	isThere := func(o *object) bool {
		return slices.ContainsFunc(o.lines, func(line []byte) bool { return bytes.Equal(line, sent[0]) })
	}
	if len(sent) == 0 || !slices.ContainsFunc(all, isThere) {
		return 0
	}
	for _, line := range sent { // somebody may have given up the first of them
		seq := newLine("", line).Seq
		if n < len(records) && bytes.Equal(linesOf(records[n:n+1], seq-1)[0], line) {
			n++
		}
	}
	return n
}

func pack(lines [][]byte) []byte {
	var content bytes.Buffer
	w := gzip.NewWriter(&content)
	_, _ = w.Write(bytes.Join(lines, []byte("\n")))
	_ = w.Close() // into memory
	return content.Bytes()
}

func unpack(content []byte) ([][]byte, error) {
	if len(content) == 0 {
		return nil, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxUnpacked))
	return bytes.SplitN(text, []byte("\n"), 2*perObject), err
}
