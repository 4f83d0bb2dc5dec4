package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/used"
)

// A Result is the cost of one program for one kind of work, measured several times.
type Result struct {
	Work, Who string
	Pods      int
	Runs      []*used.Used
	// Unreleased are stale items that the runs failed to release, WronglyReleased others that they released.
	Unreleased, WronglyReleased int
	Stale                       int `json:",omitempty"` // how many the runs beside ADDs were to release
	// Requests are those of one more run, through a proxy.
	Requests map[string]int `json:",omitempty"`
	Bytes    int64          `json:",omitempty"` // of their bodies
	// Load is the machine's load average at the start of the last run: 1 is one busy core.
	Load float64
	When time.Time
}

// A Book has all results by work and program.
type Book struct {
	Results []*Result
}

// OpenBook reads earlier results, if there are any.
func OpenBook(path string) (*Book, error) {
	b := &Book{}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err == nil {
		err = json.Unmarshal(text, b)
	}
	if err != nil {
		return nil, fmt.Errorf("reading earlier results (remove %s to begin again): %w", path, err)
	}
	return b, nil
}

// Put replaces an earlier result of the same work and program.
func (b *Book) Put(r *Result) {
	b.Results = slices.DeleteFunc(b.Results, func(o *Result) bool { return o.Work == r.Work && o.Who == r.Who })
	b.Results = append(b.Results, r)
}

// Get is nil where nothing was measured.
func (b *Book) Get(work, who string) *Result {
	for _, r := range b.Results {
		if r.Work == work && r.Who == who {
			return r
		}
	}
	return nil
}

// Save writes all results.
func (b *Book) Save(path string) error {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// Median is the median of one figure of the runs.
func (r *Result) Median(figure func(*used.Used) float64) float64 {
	var all []float64
	for _, u := range r.Runs {
		all = append(all, figure(u))
	}
	return middle(all)
}

func middle(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// Seconds is how long a run took.
func Seconds(u *used.Used) float64 { return u.Seconds }

// CPU is the processor time of a run, in seconds.
func CPU(u *used.Used) float64 { return u.CPU }

// MiB is the most memory that a run had.
func MiB(u *used.Used) float64 { return u.MiB }
