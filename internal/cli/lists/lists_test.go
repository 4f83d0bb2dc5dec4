package lists_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
)

func TestLists_AreNeverNil(t *testing.T) {
	if lists.Filter[int](nil, nil) == nil || lists.Map[int, int](nil, nil) == nil || lists.Clone[int](nil) == nil {
		t.Error("JSON would have null for an empty list")
	}
}

func TestLists_KeepTheOrder(t *testing.T) {
	all := []int{3, 1, 2}
	if got := lists.Filter(all, func(n int) bool { return n > 1 }); !slices.Equal(got, []int{3, 2}) {
		t.Errorf("Filter: %v", got)
	}
	if got := lists.Map(all, strconv.Itoa); !slices.Equal(got, []string{"3", "1", "2"}) {
		t.Errorf("Map: %v", got)
	}
	if got := lists.Clone(all); !slices.Equal(got, all) || &got[0] == &all[0] {
		t.Errorf("Clone: %v", got)
	}
}
