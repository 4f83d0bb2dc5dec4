package hostdir_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/agent/hostdir"
)

func TestExplain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cni")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(path, 0o700))
	open, err := os.Open(path)
	must(err)
	defer open.Close()
	mount := fmt.Sprintf("/proc/self/fd/%d", open.Fd()) // leads to the folder also when it is deleted, as a mount does
	first := errors.New("first")
	expect := func(what, path string, isReplaced bool) {
		t.Helper()
		err := hostdir.Explain(path, first)
		if !errors.Is(err, first) || errors.Is(err, hostdir.ErrReplaced) != isReplaced {
			t.Errorf("%s: %v", what, err)
		}
		if isReplaced && !strings.Contains(err.Error(), mount) {
			t.Errorf("%s: the error does not name the folder: %v", what, err)
		}
	}
	expect("the folder exists", mount, false)
	expect("a file is missing in it", mount+"/results", false)
	must(os.RemoveAll(path))
	expect("the folder is deleted", mount, true)
	must(os.MkdirAll(path+"/results", 0o700))
	expect("the folder is created again", mount, true)
	expect("and a file in it", mount+"/results/file", true)
	expect("the new folder", path, false)
	expect("a file that is missing in the new folder", path+"/file", false)
}
