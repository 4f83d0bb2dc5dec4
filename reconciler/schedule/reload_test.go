package schedule

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// volume is a ConfigMap volume as kubelet keeps it: its atomic writer
// (k8s.io/kubernetes/pkg/volume/util/atomic_writer.go) writes a new folder,
// renames a link over ..data, and then tidies up.
type volume struct {
	dir  string
	made int
}

func (v *volume) swap(t *testing.T, keys map[string]string) {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	v.made++
	data := filepath.Join(v.dir, "..data")
	old, _ := os.Readlink(data)
	name := fmt.Sprintf("..2026_11_21_04_30_00.%d", v.made)
	check(os.Mkdir(filepath.Join(v.dir, name), 0o755))
	for key, content := range keys {
		write(t, filepath.Join(v.dir, name, key), content)
	}
	check(os.Symlink(name, data+"_tmp"))
	check(os.Rename(data+"_tmp", data))
	for key := range keys {
		if _, err := os.Lstat(filepath.Join(v.dir, key)); err != nil {
			check(os.Symlink(filepath.Join("..data", key), filepath.Join(v.dir, key)))
		}
	}
	entries, err := os.ReadDir(v.dir)
	check(err)
	for _, e := range entries {
		if _, kept := keys[e.Name()]; !kept && e.Name()[0] != '.' {
			check(os.Remove(filepath.Join(v.dir, e.Name())))
		}
	}
	if old != "" {
		check(os.RemoveAll(filepath.Join(v.dir, old)))
	}
}

// running is a schedule that runs over real files, in simulated time.
type running struct {
	t      *testing.T
	dir    string
	file   string
	flat   []string
	states chan Status
}

// start runs a schedule over dir/mnt/config and dir/etc/{1,2}/whereabouts.conf.
func start(t *testing.T, prepare func(*running)) *running {
	dir := t.TempDir()
	r := &running{t: t, dir: dir, file: filepath.Join(dir, "mnt", "config"), states: make(chan Status, 100)}
	for _, n := range []string{"1", "2"} {
		r.flat = append(r.flat, filepath.Join(dir, "etc", n, "whereabouts.conf"))
	}
	if prepare != nil {
		prepare(r)
	}
	s := &Schedule{File: r.file, FlatFiles: r.flat, Changed: func(status Status) { r.states <- status }}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	passed := make(chan struct{}, 100)
	go func() { done <- s.Run(ctx, func(context.Context) { passed <- struct{}{} }) }()
	<-passed
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if len(passed) > 0 {
			t.Error("a reload started a pass")
		}
	})
	return r
}

// until waits for the next state, which must be this one.
func (r *running) until(expression, source string, good bool) {
	r.t.Helper()
	select {
	case status := <-r.states:
		if status.Expression != expression || status.Source != source || (status.Err == nil) != good {
			r.t.Fatalf("got %q from %s, error %v; want %q from %s", status.Expression, status.Source, status.Err, expression, source)
		}
		if !status.Next.After(time.Now().Add(-time.Minute)) || status.Next.Location() != time.UTC {
			r.t.Errorf("the next pass is due at %s", status.Next)
		}
	case <-time.After(3 * recheckEvery):
		r.t.Fatalf("%q from %s never came in force", expression, source)
	}
}

// eventually waits for a state as until does, and returns how many came on the way:
// a machine that is busy may show what was there for a moment.
func (r *running) eventually(expression, source string) (others int) {
	r.t.Helper()
	for end := time.After(3 * recheckEvery); ; others++ {
		select {
		case status := <-r.states:
			if status.Expression == expression && status.Source == source && status.Err == nil {
				return others
			}
		case <-end:
			r.t.Fatalf("%q from %s never came in force", expression, source)
		}
	}
}

// startMounted is start where the file is a key of a mounted ConfigMap.
func startMounted(t *testing.T, keys map[string]string) (*running, *volume) {
	v := &volume{}
	return start(t, func(r *running) {
		v.dir = filepath.Dir(r.file)
		_ = os.Mkdir(v.dir, 0o755)
		v.swap(t, keys)
	}), v
}

func flatFile(expression string) string {
	return fmt.Sprintf(`{"log_level": "debug", "reconciler_cron_expression": %q}`, expression)
}

func TestEverySwapOfTheVolumeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, v := startMounted(t, map[string]string{"config": "1 1 * * *"})
		r.until("1 1 * * *", r.file, true)
		for _, expression := range []string{"2 2 * * *", "@daily", "TZ=Asia/Tokyo 3 3 * * *\n", "@every 12h"} {
			v.swap(t, map[string]string{"config": expression})
			r.until(map[bool]string{true: "TZ=Asia/Tokyo 3 3 * * *", false: expression}[expression[0] == 'T'], r.file, true)
		}
	})
}

func TestABurstOfSwapsIsReadAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, v := startMounted(t, map[string]string{"config": "1 1 * * *"})
		r.until("1 1 * * *", r.file, true)
		for i := range 20 {
			v.swap(t, map[string]string{"config": fmt.Sprintf("%d 5 * * *", i)})
		}
		if others := r.eventually("19 5 * * *", r.file); others > 3 {
			t.Errorf("20 swaps at once were read %d times", others+1)
		}
	})
}

func TestAKeyThatComesAndGoesInTheVolumeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, v := startMounted(t, map[string]string{"other": "x"})
		r.until(Default, SourceDefault, true)
		v.swap(t, map[string]string{"other": "x", "config": "1 1 * * *"})
		r.until("1 1 * * *", r.file, true)
		v.swap(t, map[string]string{"other": "x"})
		r.until(Default, SourceDefault, true)
	})
}

func TestABadExpressionInTheVolumeIsReportedAndCorrected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, v := startMounted(t, map[string]string{"config": "1 1 * * *"})
		r.until("1 1 * * *", r.file, true)
		for _, bad := range []string{"every 5 minutes", "", "0 30 4 * * *", "30 4 * * 7", "0 0 30 2 *", "TZ=UTC", string(make([]byte, 1<<20))} {
			v.swap(t, map[string]string{"config": bad})
			r.until("1 1 * * *", r.file, false)
		}
		v.swap(t, map[string]string{"config": "2 2 * * *"})
		r.until("2 2 * * *", r.file, true)
	})
}

func TestABadExpressionAtStartLeavesTheDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *running) {
			write(t, r.file, "")
			write(t, r.flat[0], flatFile("1 1 * * *"))
		})
		r.until(Default, r.file, false)
		write(t, r.file, Default)
		r.until(Default, r.file, true)
	})
}

func TestAPlainFileCountsHoweverItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *running) { write(t, r.file, "1 1 * * *") })
		r.until("1 1 * * *", r.file, true)

		write(t, r.file, "2 2 * * *")
		r.until("2 2 * * *", r.file, true)

		write(t, r.file+".new", "3 3 * * *")
		if err := os.Rename(r.file+".new", r.file); err != nil {
			t.Fatal(err)
		}
		r.until("3 3 * * *", r.file, true)

		f, err := os.OpenFile(r.file, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range "4 4 * * *" { // One write a character: its halves are no state to stay in.
			if _, err := f.WriteString(string(c)); err != nil {
				t.Fatal(err)
			}
		}
		_ = f.Close()
		r.eventually("4 4 * * *", r.file)
	})
}

func TestAFileThatComesAndGoesCountsInItsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *running) { _ = os.Mkdir(filepath.Dir(r.file), 0o755) })
		r.until(Default, SourceDefault, true)

		write(t, r.flat[1], flatFile("2 2 * * *"))
		r.until("2 2 * * *", r.flat[1], true)
		write(t, r.flat[0], flatFile("1 1 * * *"))
		r.until("1 1 * * *", r.flat[0], true)
		write(t, r.file, "0 0 * * *")
		r.until("0 0 * * *", r.file, true)

		for _, gone := range []struct{ file, then, source string }{
			{r.file, "1 1 * * *", r.flat[0]}, {r.flat[0], "2 2 * * *", r.flat[1]}, {r.flat[1], Default, SourceDefault},
		} {
			if err := os.Remove(gone.file); err != nil {
				t.Fatal(err)
			}
			r.until(gone.then, gone.source, true)
		}
	})
}

func TestAFlatFileThatBreaksIsReportedAndStillDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *running) {
			write(t, r.flat[0], flatFile("1 1 * * *"))
			write(t, r.flat[1], flatFile("2 2 * * *"))
		})
		r.until("1 1 * * *", r.flat[0], true)
		write(t, r.flat[0], "{")
		r.until("1 1 * * *", r.flat[0], false)
		write(t, r.flat[0], flatFile("every day"))
		r.until("1 1 * * *", r.flat[0], false)
		write(t, r.flat[0], flatFile("3 3 * * *"))
		r.until("3 3 * * *", r.flat[0], true)
	})
}

func TestAFolderThatComesGoesAndComesAgainCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil) // There is nothing at all.
		r.until(Default, SourceDefault, true)
		for _, expression := range []string{"1 1 * * *", "2 2 * * *"} {
			write(t, r.file, expression)
			r.until(expression, r.file, true)
			if err := os.RemoveAll(filepath.Dir(r.file)); err != nil {
				t.Fatal(err)
			}
			r.until(Default, SourceDefault, true)
		}
	})
}

func TestAFolderThatIsPutInThePlaceOfAnotherCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *running) { write(t, r.file, "1 1 * * *") })
		r.until("1 1 * * *", r.file, true)
		for _, expression := range []string{"2 2 * * *", "3 3 * * *"} {
			write(t, filepath.Join(r.dir, "new", "config"), expression)
			if err := os.Rename(filepath.Dir(r.file), filepath.Join(r.dir, "old"+expression[:1])); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(r.dir, "new"), filepath.Dir(r.file)); err != nil {
				t.Fatal(err)
			}
			r.eventually(expression, r.file)
		}
		write(t, r.file, "4 4 * * *")
		r.until("4 4 * * *", r.file, true)
	})
}

func TestAFolderFarBelowWhatThereIsCountsAsItAppearsStepByStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.until(Default, SourceDefault, true)
		// The folder above it comes first, and is watched before the rest comes.
		write(t, filepath.Join(r.dir, "etc", "note"), "")
		write(t, r.file, "1 1 * * *")
		r.until("1 1 * * *", r.file, true)
		if err := os.Remove(r.file); err != nil {
			t.Fatal(err)
		}
		r.until(Default, SourceDefault, true)
		write(t, r.flat[0], flatFile("2 2 * * *"))
		r.until("2 2 * * *", r.flat[0], true)
	})
}
