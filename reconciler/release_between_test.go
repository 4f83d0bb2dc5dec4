package reconciler_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
)

const smallPool = "10.0.0.0-24" // its range overlaps that of bluePool

// entryOf is an entry of default/web-0.
func entryOf(id string) map[string]any {
	return map[string]any{"id": id, "podref": "default/web-0", "ifname": "net1"}
}

// Others act while a proven leak is released, before each of its steps. The golden file has the allocation, its
// reservation and the result afterwards.
func TestRelease_WhatHappensInBetween(t *testing.T) {
	var lines []string
	for _, c := range []struct {
		says    string
		happens func(s *simulator)
	}{
		{"nothing", func(*simulator) {}},
		{"an ADD of its pod reuses the entry", func(s *simulator) {
			s.pod("web-0", "uid-2")
			s.fill(bluePool, "1", entryOf("box-new"))
		}},
		{"an ADD reuses the entry, and a report says that its sandbox is gone, too",
			func(s *simulator) { s.fill(bluePool, "1", entryOf("box-gone")) }},
		{"an ADD of its pod takes the address in an overlapping pool", func(s *simulator) {
			s.pod("web-0", "uid-2")
			s.fill(smallPool, "1", entryOf("box-new"))
		}},
		{"so it does, and a DEL removes the entry", func(s *simulator) {
			s.pod("web-0", "uid-2")
			s.fill(smallPool, "1", entryOf("box-new"))
			s.fill(bluePool, "1", nil)
		}},
		{"a DEL removes the entry", func(s *simulator) { s.fill(bluePool, "1", nil) }},
		{"a DEL removes both", func(s *simulator) { s.fill(bluePool, "1", nil); s.changeReservation(blueAddress, nil) }},
		{"another pod takes the address", func(s *simulator) {
			s.pod("web-9", "uid-9")
			s.entry(bluePool, 1, "default/web-9", "box-new", false)
		}},
		{"its pod starts", func(s *simulator) { s.pod("web-0", "uid-2") }},
		{"its pod carries the address", func(s *simulator) { s.pod("web-0", "uid-2", 1) }},
		{"its sandbox runs after all", func(s *simulator) {
			r := s.reports[0].SandboxReport
			r.Gone, r.Sandboxes = nil, []v1alpha1.Sandbox{{ID: "box-old", UID: "uid-1", Namespace: "default", Name: "web-0",
				State: v1alpha1.SandboxReady}}
		}},
		{"its agent stops reporting", func(s *simulator) { s.silent = true; time.Sleep(62 * time.Second) }},
		{"somebody writes an unknown field into the entry", func(s *simulator) {
			e := entryOf("box-old")
			e["until"] = "later"
			s.fill(bluePool, "1", e)
		}},
		{"the range of the pool cannot be read", func(s *simulator) {
			s.changePool(bluePool, func(u *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(u.Object, "10.0.0.0/16 and more", "spec", "range")
			})
		}},
		{"the pool is paused", func(s *simulator) {
			s.changePool(bluePool, func(u *unstructured.Unstructured) {
				u.SetAnnotations(map[string]string{ippool.PausedAnnotation: "true"})
			})
		}},
		{"everything is paused", func(s *simulator) { s.paused = true }},
		{"etcd is restored", func(s *simulator) { s.revision = 1 }},
	} {
		lines = append(lines, c.says+":")
		for _, moment := range []string{"refresh", "hold", "fresh", "freshening", "delete", "patch", "patch fails",
			"patch is lost"} {
			t.Run(c.says+", before "+moment, func(t *testing.T) {
				bubble(t, func(t *testing.T, s *simulator) {
					s.entry(bluePool, 1, "default/web-0", "box-old", true)
					s.poolOf(smallPool, "10.0.0.0/24")
					time.Sleep(5 * time.Minute)
					report := goneOn("worker-1", v1alpha1.Gone{ID: "box-old", UID: "uid-1"}, v1alpha1.Gone{ID: "box-gone",
						UID: "uid-0"})
					at, _, isFault := strings.Cut(moment, " ")
					if isFault {
						s.takes["patch"] = 6 * time.Second // so that the next hold refreshes
						s.fault = func(call, _ string) (error, bool) {
							if call != "patch" || len(s.made("patch")) > 1 {
								return nil, false
							}
							return errServer, moment == "patch is lost"
						}
					}
					if moment == "hold" {
						s.takes["hold"] = 6 * time.Second // so that the hold refreshes
					}
					happened := false
					s.step = func(call, _ string) {
						if !s.silent {
							s.setReport(report)
						}
						if call == at && !happened {
							happened = true
							c.happens(s)
						}
					}
					r := s.reconciler(t)
					r.Options.ConfirmAfter = 15 * time.Minute
					out, _, err := r.Pass(t.Context(), nil)
					if err != nil || !happened {
						t.Fatal(err, happened)
					}
					lines = append(lines, fmt.Sprintf("%-14s  %s, %d holds", moment, s.state(out), len(s.holds)))
				})
			})
		}
	}
	golden(t, "release_between.txt", lines)
}

// A reservation without allocation gets one before the hold.
func TestRelease_ReservationForWhichAnEntryAppears(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.entry(bluePool, 9, "default/gone-9", "box-9", false)
		s.alone(1, 1)
		time.Sleep(5 * time.Minute)
		s.step = func(call, _ string) {
			if call == "hold" && len(s.holds) == 0 {
				s.entry(bluePool, 1, "default/lost-1", "box-1", false)
			}
		}
		if _, _, err := s.reconciler(t).Pass(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		same(t, "deleted", s.made("delete"), []string{})
	})
}
