package snapshot_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

const oneReservation = `apiVersion: whereabouts.cni.cncf.io/v1alpha1
kind: OverlappingRangeIPReservation
metadata:
  name: 10.0.0.5
  namespace: kube-system
  uid: r5
spec:
  podref: default/a
`

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func TestAReservationThatIsDeletedLeavesItsList(t *testing.T) {
	dir := folder(t, map[string]string{"all.yaml": everyKind})
	unreserve(t, open(t, dir), "10.0.0.5")
	from := strings.Index(everyKind, "- apiVersion: whereabouts.cni.cncf.io/v1alpha1\n  kind: Overlapping")
	to := from + strings.Index(everyKind[from:], "- apiVersion: k8s.cni.cncf.io/v1\n")
	same(t, "the file", read(t, dir+"/all.yaml"), everyKind[:from]+everyKind[to:])
}

func TestTheLastReservationOfAListLeavesAnEmptyList(t *testing.T) {
	text := "apiVersion: v1\nitems:\n- " + strings.ReplaceAll(strings.TrimSuffix(oneReservation, "\n"), "\n", "\n  ") + "\nkind: List\nmetadata:\n  resourceVersion: \"\"\n"
	dir := folder(t, map[string]string{"pool.yaml": onePool, "r.yaml": text})
	unreserve(t, open(t, dir), "10.0.0.5")
	same(t, "the file", read(t, dir+"/r.yaml"), "apiVersion: v1\nitems: []\nkind: List\nmetadata:\n  resourceVersion: \"\"\n")
	equal(t, "reservations", len(observe(t, open(t, dir)).Reservations), 0)
}

func TestAReservationThatIsDeletedLeavesTheOtherDocuments(t *testing.T) {
	for title, where := range map[string]string{
		"first":  oneReservation + "---\n" + onePool,
		"last":   onePool + "---\n" + oneReservation,
		"middle": onePool + "---\n" + oneReservation + "---\n# a comment\nkind: Pod\nmetadata: {name: x}\n",
	} {
		t.Run(title, func(t *testing.T) {
			dir := folder(t, map[string]string{"all.yaml": where})
			unreserve(t, open(t, dir), "10.0.0.5")
			want := strings.Replace(strings.Replace(where, oneReservation+"---\n", "", 1), "---\n"+oneReservation, "", 1)
			same(t, "the file", read(t, dir+"/all.yaml"), want)
		})
	}
}

func TestAReservationsOwnFileGoesWithIt(t *testing.T) {
	asJSON := `{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"OverlappingRangeIPReservation","metadata":{"name":"10.0.0.5","namespace":"kube-system","uid":"r5"},"spec":{"podref":"default/a"}}`
	for file, text := range map[string]string{"r.yaml": oneReservation, "r.json": asJSON} {
		dir := folder(t, map[string]string{"pool.yaml": onePool, "sub/" + file: text})
		unreserve(t, open(t, dir), "10.0.0.5")
		if exists(t, filepath.Join(dir, "sub", file)) {
			t.Errorf("%s is still there", file)
		}
		if !exists(t, filepath.Join(dir, "pool.yaml")) {
			t.Error("the pool's file went, too")
		}
	}
}

func TestReservationsLeaveAJSONListOneByOneAndTogether(t *testing.T) {
	item := func(name string) string {
		return `{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"OverlappingRangeIPReservation","metadata":{"name":"` + name + `","namespace":"kube-system","uid":"u` + name + `"},"spec":{"podref":"default/a"}}`
	}
	text := `{"apiVersion":"v1","items":[` + item("10.0.0.1") + `,` + item("10.0.0.2") + `,` + item("10.0.0.3") + `],"kind":"List"}` + "\n"
	dir := folder(t, map[string]string{"pool.yaml": onePool, "r.json": text})
	f := open(t, dir)
	unreserve(t, f, "10.0.0.2")
	same(t, "without the second", read(t, dir+"/r.json"), `{"apiVersion":"v1","items":[`+item("10.0.0.1")+`,`+item("10.0.0.3")+`],"kind":"List"}`+"\n")
	o := observe(t, f)
	hold(t, f, func(ctx context.Context, _ *reconciler.Hold) error {
		return errors.Join(f.DeleteReservation(ctx, reservationNamed(t, o, "10.0.0.3")), f.DeleteReservation(ctx, reservationNamed(t, o, "10.0.0.1")))
	})
	same(t, "without any", read(t, dir+"/r.json"), `{"apiVersion":"v1","items":[],"kind":"List"}`+"\n")
}

// A run deletes several at once.
func TestReservationsMayBeDeletedAllAtOnce(t *testing.T) {
	var text string
	for _, n := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
		text += strings.ReplaceAll(strings.ReplaceAll(oneReservation, "10.0.0.5", "10.0.0."+n), "r5", "r"+n) + "---\n"
	}
	dir := folder(t, map[string]string{"pool.yaml": onePool, "r.yaml": text})
	f := open(t, dir)
	o := observe(t, f)
	hold(t, f, func(ctx context.Context, _ *reconciler.Hold) error {
		var g errgroup.Group
		for _, r := range o.Reservations[1:] {
			g.Go(func() error { return f.DeleteReservation(ctx, r) })
		}
		return g.Wait()
	})
	left := observe(t, open(t, dir)).Reservations
	if len(left) != 1 || left[0].Name != o.Reservations[0].Name {
		t.Errorf("%d reservations are left", len(left))
	}
}

func TestAReservationThatIsGoneOrAnotherByNowIsNotDeletedAndNoError(t *testing.T) {
	dir := folder(t, map[string]string{"pool.yaml": onePool, "r.yaml": oneReservation})
	f := open(t, dir)
	other := *reservationNamed(t, observe(t, f), "10.0.0.5")
	other.UID = "another" // one that was there before, under the same name
	hold(t, f, func(ctx context.Context, _ *reconciler.Hold) error { return f.DeleteReservation(ctx, &other) })
	same(t, "the file", read(t, dir+"/r.yaml"), oneReservation)
	r := reservationNamed(t, observe(t, f), "10.0.0.5")
	unreserve(t, f, "10.0.0.5")
	hold(t, f, func(ctx context.Context, _ *reconciler.Hold) error { return f.DeleteReservation(ctx, r) })
}

func newReservation() *unstructured.Unstructured {
	return ippool.NewReservation("kube-system", "", netip.MustParseAddr("10.0.0.5"), "default/a", "net1")
}

func TestAReservationThatIsCreatedIsReadBack(t *testing.T) {
	dir := folder(t, map[string]string{"pool.yaml": onePool})
	f := open(t, dir)
	hold(t, f, func(ctx context.Context, _ *reconciler.Hold) error { return f.CreateReservation(ctx, newReservation()) })
	for title, o := range map[string]*judge.Observation{"the same folder": observe(t, f), "reopened": observe(t, open(t, dir))} {
		r := reservationNamed(t, o, "10.0.0.5")
		if r.PodRef != "default/a" || r.IfName != "net1" || r.Namespace != "kube-system" || r.Problem != "" {
			t.Errorf("%s: %+v", title, r)
		}
	}
	same(t, "the pool's file", read(t, dir+"/pool.yaml"), onePool)
}

func TestAReservationThatIsThereAlreadyIsAConflict(t *testing.T) {
	dir := folder(t, map[string]string{"pool.yaml": onePool, "r.yaml": oneReservation})
	f := open(t, dir)
	err := f.Hold(t.Context(), "kube-system", nil, func(ctx context.Context, _ *reconciler.Hold) error { return f.CreateReservation(ctx, newReservation()) })
	if !errors.Is(err, reconciler.ErrConflict) {
		t.Errorf("%v", err)
	}
	equal(t, "reservations", len(observe(t, open(t, dir)).Reservations), 1)
}

// The second check puts back what was deleted for an entry that proves live:
// within one hold, from a file of its own or from among others.
func TestAReservationThatIsPutBackIsThereAndTheOthersToo(t *testing.T) {
	second := strings.ReplaceAll(strings.ReplaceAll(oneReservation, "10.0.0.5", "10.0.0.6"), "r5", "r6")
	for title, files := range map[string]map[string]string{
		"from a file of its own":         {"pool.yaml": onePool, "five.yaml": oneReservation, "six.yaml": second},
		"from among others":              {"pool.yaml": onePool, "r.yaml": oneReservation + "---\n" + second},
		"from a file called as ours are": {"pool.yaml": onePool, "reservation-kube-system-10.0.0.5.yaml": oneReservation + "---\n" + second},
	} {
		t.Run(title, func(t *testing.T) {
			dir := folder(t, files)
			f := open(t, dir)
			r := reservationNamed(t, observe(t, f), "10.0.0.5")
			hold(t, f, func(ctx context.Context, _ *reconciler.Hold) error {
				return errors.Join(f.DeleteReservation(ctx, r), f.CreateReservation(ctx, newReservation()))
			})
			var names []string
			for _, r := range observe(t, open(t, dir)).Reservations {
				names = append(names, r.Name)
			}
			slices.Sort(names)
			if !slices.Equal(names, []string{"10.0.0.5", "10.0.0.6"}) {
				t.Errorf("there are %q", names)
			}
		})
	}
}

// What was created and deleted before it was ever written leaves no file, and
// no error about one.
func TestAReservationThatIsCreatedAndDeletedInOneHoldLeavesNothing(t *testing.T) {
	dir := folder(t, map[string]string{"pool.yaml": onePool})
	f := open(t, dir)
	hold(t, f, func(ctx context.Context, _ *reconciler.Hold) error {
		if err := f.CreateReservation(ctx, newReservation()); err != nil {
			return err
		}
		return f.DeleteReservation(ctx, reservationNamed(t, observe(t, f), "10.0.0.5"))
	})
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}
