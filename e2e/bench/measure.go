package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
	"github.com/ip-reconcile/ip-reconcile/e2e/bench/used"
)

// The programs. Upstream is whereabouts' reconciler without limits on requests; Shipped is the same with client-go's: 5
// a second.
const (
	Ours       = "ours"
	Upstream   = "upstream"
	Shipped    = "upstream-as-shipped"
	Lists      = "lists"
	PlainLists = "lists-plain"
	DropIn     = "drop-in"
)

// A Bench measures with the programs of a folder and writes into a book.
type Bench struct {
	Programs string // with ip-reconcile, ip-reconciler, upstream and lists
	Path     string // of the book
	Book     *Book
	Runs     int // of each kind
	Log      io.Writer
}

func (b *Bench) program(name string) string { return filepath.Join(b.Programs, name) }

// check is the command of a judgement that writes nothing, or of bare LISTs.
func (b *Bench) check(who, kubeconfig string) []string {
	switch who {
	case Ours:
		return []string{b.program("ip-reconcile"), "check", "--kubeconfig", kubeconfig}
	case Upstream:
		return []string{b.program("upstream"), "-look", "-kubeconfig", kubeconfig}
	case PlainLists:
		return []string{b.program("lists"), "-plain", "-kubeconfig", kubeconfig}
	default:
		return []string{b.program("lists"), "-kubeconfig", kubeconfig}
	}
}

// release is the command of a release of all that is stale.
func (b *Bench) release(who, kubeconfig string) []string {
	switch who {
	case Ours:
		return []string{b.program("ip-reconcile"), "run", "--yes", "--confirm-after", "0s", "--allow-mass-release",
			"--kubeconfig", kubeconfig}
	case Shipped:
		return []string{b.program("upstream"), "-qps", "0", "-log-level", "debug", "-kubeconfig", kubeconfig}
	default:
		return []string{b.program("upstream"), "-kubeconfig", kubeconfig}
	}
}

func (b *Bench) put(r *Result) error {
	r.When, r.Load = time.Now().UTC().Truncate(time.Second), load()
	last := r.Runs[len(r.Runs)-1]
	fmt.Fprintf(b.Log, "%-28s %-20s %8.2f s %8.2f s CPU %7.1f MiB, exit %d, left %d, lost %d, load %.1f\n",
		r.Work, r.Who, r.Median(Seconds), r.Median(CPU), r.Median(MiB), last.Code, r.Unreleased, r.WronglyReleased, r.Load)
	b.Book.Put(r)
	return b.Book.Save(b.Path)
}

// load is the machine's load average over a minute.
func load() (one float64) {
	text, _ := os.ReadFile("/proc/loadavg")
	fmt.Sscan(string(text), &one)
	return one
}

// Checks measures judgements on the server, in turn.
func (b *Bench) Checks(ctx context.Context, s *Server, work string, runs int, who ...string) error {
	results := map[string]*Result{}
	for range runs {
		for _, w := range who {
			u, err := b.run(ctx, b.check(w, s.Kubeconfig())...)
			if err != nil {
				return err
			}
			if u.Code > 1 || u.Code == 1 && w != Ours {
				return fmt.Errorf("%s of %s failed: %s", work, w, u.Output)
			}
			if results[w] == nil {
				results[w] = &Result{Work: work, Who: w, Pods: s.Content.Pods}
			}
			results[w].Runs = append(results[w].Runs, u)
		}
	}
	for _, w := range who {
		if err := b.put(results[w]); err != nil {
			return err
		}
	}
	return nil
}

// Releases measures releases of all that is stale, in turn, and then counts the requests of one more. Each begins with
// the same content.
func (b *Bench) Releases(ctx context.Context, s *Server, work string, runs int, who ...string) error {
	p, err := NewProxy(s.Config())
	if err != nil {
		return err
	}
	defer p.Close()
	results := map[string]*Result{}
	one := func(r *Result, kubeconfig string) (*used.Used, error) {
		u, err := b.run(ctx, b.release(r.Who, kubeconfig)...)
		if err != nil {
			return nil, err
		}
		left, lost, err := s.Remaining(ctx)
		if err != nil {
			return nil, err
		}
		r.Unreleased, r.WronglyReleased = r.Unreleased+left, r.WronglyReleased+lost
		return u, s.Refill(ctx)
	}
	for range runs {
		for _, w := range who {
			if results[w] == nil {
				results[w] = &Result{Work: work, Who: w, Pods: s.Content.Pods}
			}
			u, err := one(results[w], s.Kubeconfig())
			if err != nil {
				return err
			}
			results[w].Runs = append(results[w].Runs, u)
		}
	}
	for _, w := range who {
		p.Take()
		if _, err := one(results[w], p.Kubeconfig()); err != nil {
			return err
		}
		results[w].Requests = p.Take().Requests
		if err := b.put(results[w]); err != nil {
			return err
		}
	}
	return nil
}

// With runs measurements on a server with a content.
func (b *Bench) With(ctx context.Context, c *fill.Content, do func(*Server) error) error {
	c.Made = time.Now().UTC().Truncate(time.Second)
	if c.Nodes == 0 {
		c.Nodes = max(1, c.Pods/100)
	}
	began := time.Now()
	s, err := NewServer(ctx, c)
	if s == nil {
		return err
	}
	if err == nil {
		fmt.Fprintf(b.Log, "an API server with %d pods and %d entries in %d pools after %.1f s\n", c.Pods, c.Entries(),
			c.Pools, time.Since(began).Seconds())
		err = do(s)
	}
	return errors.Join(err, s.Close())
}

// run runs a program to its end by way of launch.
func (b *Bench) run(ctx context.Context, program ...string) (*used.Used, error) {
	cmd := exec.CommandContext(ctx, b.program("launch"), program...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("running %v: %w: %s", program, err, errs.String())
	}
	u := &used.Used{}
	if err := json.Unmarshal(out.Bytes(), u); err != nil {
		return nil, fmt.Errorf("reading what %v took: %w", program, err)
	}
	text := errs.String()
	u.Output = text[max(0, len(text)-1000):]
	return u, nil
}
