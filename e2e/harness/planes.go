package harness

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
)

// Planes are control planes that tests use one after the other: to start one takes longer than most tests. The zero
// value has none yet.
type Planes struct {
	mu   sync.Mutex
	free []*lasting
}

// lasting is a control plane that outlives tests.
type lasting struct {
	*ControlPlane
	fresh contents // of its etcd
}

// Start gives the test a control plane like StartControlPlane's.
func (p *Planes) Start(t testing.TB) *ControlPlane {
	t.Helper()
	l, err := p.take(t.Context())
	if err != nil {
		t.Fatalf("starting the control plane: %v", err)
	}
	c, err := l.forOneTest()
	if err != nil {
		t.Fatalf("giving the control plane to a test: %v", errors.Join(err, l.Close()))
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.logTails(t)
		}
		err := c.run.close()
		if !c.disturbed && !t.Failed() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.free = append(p.free, l)
		} else {
			c.StopAPI()
			c.StopEtcd()
			err = errors.Join(err, l.Close())
		}
		if err != nil {
			t.Errorf("removing what the cluster left: %v", err)
		}
	})
	return c
}

// Close ends all that no test uses.
func (p *Planes) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, l := range p.free {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// take returns one in the state in which it started.
func (p *Planes) take(ctx context.Context) (*lasting, error) {
	for l := p.pop(); l != nil; l = p.pop() {
		short, cancel := context.WithTimeout(ctx, readyTimeout)
		err := l.clear(short)
		cancel()
		switch {
		case err == nil:
			return l, nil
		case !errors.Is(err, errUnclear):
			return nil, errors.Join(err, l.Close())
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	c, err := NewControlPlane(ctx) // which may build its programs for minutes first
	l := &lasting{ControlPlane: c}
	if err == nil {
		l.fresh, err = c.contents(ctx, false)
	}
	if err != nil && c != nil {
		err = errors.Join(err, c.Close())
	}
	return l, err
}

func (p *Planes) pop() *lasting {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		return nil
	}
	l := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	return l
}

// clear restores etcd's first content, and waits until the API server serves that. It returns errUnclear if another
// must be started.
func (l *lasting) clear(ctx context.Context) error {
	if err := l.putBack(ctx, l.fresh); err != nil {
		return err
	}
	crds, err := l.ownCRDs()
	if err != nil {
		return err
	}
	for _, crd := range crds {
		if err := l.waitServed(ctx, crd); err != nil {
			return err
		}
	}
	return nil
}

// forOneTest is a control plane with these servers and a folder of its own.
func (l *lasting) forOneTest() (*ControlPlane, error) {
	run, err := newRun()
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{
		run: run, home: l.home, bin: l.bin, apiServer: l.apiServer,
		address: l.address, port: l.port, credentials: l.credentials,
		config: l.config, client: l.client, dynamic: l.dynamic, apiFlags: l.apiFlags, etcd: l.etcd, api: l.api,
	}
	log, err := os.Stat(c.auditLog())
	if err == nil {
		c.audited = log.Size()
		err = c.writeKubeconfigs()
	}
	if err != nil {
		return nil, errors.Join(err, run.close())
	}
	return c, nil
}
