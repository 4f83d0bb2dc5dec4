package snapshot_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

func TestAPoolThatIsCreatedIsReadBackAndCanBePatched(t *testing.T) {
	dir := folder(t, map[string]string{"pool.yaml": onePool})
	f := open(t, dir)
	created := ippool.NewPool("kube-system", "blue", netip.MustParsePrefix("10.9.0.0/24"))
	create := func(ctx context.Context, _ *reconciler.Hold) error {
		_, err := f.CreatePool(ctx, created.AsNew([]ippool.NewEntry{{Key: "4", ContainerID: "box-4", PodRef: "default/d"}}))
		return err
	}
	hold(t, f, create)
	err := f.Hold(t.Context(), "kube-system", nil, create)
	if !errors.Is(err, reconciler.ErrConflict) {
		t.Errorf("made a second time: %v", err)
	}
	pool := func(o *judge.Observation) *ippool.Pool {
		for _, p := range o.Pools {
			if p.Name == "blue-10.9.0.0-24" {
				return p
			}
		}
		t.Fatal("it is not there")
		return nil
	}
	patch, err := ippool.WritePatch(pool(observe(t, f)), []ippool.NewEntry{{Key: "5", ContainerID: "box", PodRef: "default/a", IfName: "net1"}})
	if err != nil {
		t.Fatal(err)
	}
	hold(t, f, func(ctx context.Context, _ *reconciler.Hold) error {
		_, err := f.PatchPool(ctx, pool(observe(t, f)), patch)
		return err
	})
	for title, o := range map[string]*judge.Observation{"the same folder": observe(t, f), "reopened": observe(t, open(t, dir))} {
		if a := pool(o).Find("5"); a == nil || a.PodRef != "default/a" || pool(o).Problem != "" || pool(o).Find("4") == nil {
			t.Errorf("%s: %+v", title, pool(o))
		}
	}
	same(t, "the other pool's file", read(t, dir+"/pool.yaml"), onePool)
}
