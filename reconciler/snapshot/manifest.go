package snapshot

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/lean"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// outputGroup is the API group of what ip-reconcile prints, and manifestKind the kind of a bundle's manifest.
const (
	outputGroup  = "output.ip-reconcile.dev"
	manifestKind = "Sysdump"
)

// bundle is what was read of a bundle's manifest.
type bundle struct {
	path string // of the manifest
	Manifest
	ObservedAt time.Time `json:"observedAt"`
	Cluster    struct {
		UID string `json:"uid"`
	} `json:"cluster"`
	Missing []string        `json:"missing"` // the parts that could not be collected
	has     map[string]bool // the fields with a value
}

// requiredFields are what a manifest always has, so that one without them was edited.
var requiredFields = []string{"lists", "unknown", "paused", "warnings", "unreadable"}

// listKey is a kind in a file.
type listKey struct{ path, kind string }

// refuseRecord refuses a bundle of a version before the first release.
func (s *Snapshot) refuseRecord(*object) error {
	return errors.New("a development version of sysdump wrote it, in a format that is no longer read: " +
		"write it again with this version")
}

func (s *Snapshot) addManifest(o *object) error {
	b := &bundle{path: o.path, has: map[string]bool{}}
	if err := decode(o.text, b); err != nil {
		return err
	}
	r := lean.New(o.text)
	r.Object(func(name []byte) { b.has[string(name)] = r.Kind() != 'n' })
	if version := outputGroup + "/v1"; o.apiVersion != version {
		return fmt.Errorf("its apiVersion is %s, and not %s: judge the archive with the version of ip-reconcile that "+
			"wrote it", o.apiVersion, version)
	}
	if s.bundle != nil {
		return fmt.Errorf("another manifest is in %s: judge each archive alone", s.bundle.path)
	}
	s.bundle = b
	return nil
}

// completeBundle completes the observation of a bundle, if the bundle has all objects of its manifest and no others: a
// missing pod would count as gone.
func (s *Snapshot) completeBundle(now time.Time) error {
	b, o := s.bundle, &s.observed
	if len(b.Lists) == 0 {
		return fmt.Errorf("%s names no objects, since they could not be collected: %s", b.path,
			strings.Join(b.Missing, "; "))
	}
	if err := s.checkBundle(); err != nil {
		return err
	}
	leases := map[string]*coordinationv1.Lease{}
	hasAgents := false
	for _, l := range s.leases {
		leases[l.Name] = l
		hasAgents = hasAgents || l.Annotations[v1alpha1.HashAnnotation] != ""
	}
	reports := s.unreadReports
	for _, r := range sorted(s.reports) {
		reports = append(reports, podstate.ReadReport(r, leases[r.Name]))
	}
	if s.isReportNameless {
		return fmt.Errorf("%s names reports of which one has no name: write the archive again", b.path)
	}
	o.Pools = sorted(s.pools)
	o.Reservations = listed(b, "OverlappingRangeIPReservation", sorted(s.reservations))
	o.NADs = listed(b, "NetworkAttachmentDefinition", s.nads)
	o.IPAMClaims = listed(b, "IPAMClaim", s.claims)
	o.Guests = listed(b, "VirtualMachineInstance", s.guests)
	o.Nodes = listed(b, "Node", s.nodes)
	o.Reports = listed(b, "SandboxReport", reports)
	o.AgentLeases = listed(b, "Lease", hasAgents)
	o.Revision = b.revision()
	o.Paused, o.Acknowledged, o.Restored, o.RestoreState = b.Paused, b.Acknowledged, b.Restored, b.RestoreState
	o.Warnings = slices.Concat(b.Warnings)
	s.forgetNotes()
	o.Unreadable = append(o.Unreadable, b.Unreadable...)
	if o.Static, o.Now = true, now; now.IsZero() {
		o.Now = b.ObservedAt
	}
	s.ClusterUID = b.Cluster.UID
	return nil
}

// forgetNotes removes what is said of objects of an export alone: a pod in a bundle has all that it has in the cluster,
// and the manifest says which reports could not be decoded.
func (s *Snapshot) forgetNotes() {
	forgotten := s.unreadReportNotes
	for _, p := range s.lacking {
		if s.observed.Pods[p.NamespacedName] == p {
			forgotten, p.Contradiction = append(forgotten, p.Contradiction), ""
		}
	}
	s.observed.Unreadable = slices.DeleteFunc(s.observed.Unreadable, func(text string) bool {
		return slices.Contains(forgotten, text)
	})
}

// folderOf is what stands before the name of a file in a folder or in an archive ("x.tgz: name").
func folderOf(path string) string {
	end := strings.LastIndexAny(path, "/"+string(filepath.Separator)) + 1
	if at := strings.LastIndex(path, ": "); at >= end {
		end = at + len(": ")
	}
	return path[:end]
}

// checkBundle checks that each file has as many objects as the manifest counts, and that no other file has any.
func (s *Snapshot) checkBundle() error {
	b, named, has := s.bundle, map[listKey]bool{}, map[string]bool{}
	if b.ObservedAt.IsZero() {
		return fmt.Errorf("%s has no observedAt: the archive was edited, so write it again with sysdump", b.path)
	}
	for _, field := range requiredFields {
		if !b.has[field] {
			return fmt.Errorf("%s has no %s: the archive was edited, so write it again with sysdump", b.path, field)
		}
	}
	twice := func(kind string) error {
		return fmt.Errorf("%s names objects of kind %s twice: the archive was cut or edited, so write it again with sysdump",
			b.path, kind)
	}
	for _, l := range b.Lists {
		key := listKey{folderOf(b.path) + l.File, l.Kind}
		if has[l.Kind] {
			return twice(l.Kind)
		}
		if s.counts[key] != l.Objects {
			return fmt.Errorf("%s has %d objects of kind %s, and %s counts %d: the archive was cut or edited, "+
				"so write it again with sysdump", key.path, s.counts[key], l.Kind, b.path, l.Objects)
		}
		named[key], has[l.Kind] = true, true
	}
	for _, u := range b.Unknown {
		if u.Kind == "IPPool" || u.Kind == "Pod" { // nothing is judged without them
			return fmt.Errorf("%s says that no %s could be read: the archive was edited, so write it again with sysdump",
				b.path, u.Kind)
		}
		if has[u.Kind] {
			return twice(u.Kind)
		}
		has[u.Kind] = true
	}
	for i := range writtenKinds {
		if kind := writtenKinds[i].kind; !has[kind] {
			return fmt.Errorf("%s says nothing of objects of kind %s: judge the archive with the version of ip-reconcile "+
				"that wrote it", b.path, kind)
		}
	}
	for key := range s.counts {
		if !named[key] && key.kind != manifestKind {
			return fmt.Errorf("%s has objects of kind %s, which %s does not count: judge the archive as sysdump wrote it",
				key.path, key.kind, b.path)
		}
	}
	return nil
}

// listed returns the objects of a kind, or why the kind could not be read when the bundle was written.
func listed[T any](b *bundle, kind string, content T) facts.Source[T] {
	for _, l := range b.Lists {
		if l.Kind == kind {
			return facts.Complete(content, l.ResourceVersion)
		}
	}
	i := slices.IndexFunc(b.Unknown, func(u UnknownKind) bool { return u.Kind == kind })
	return facts.Unknown[T](errors.New(b.Unknown[i].Why))
}

// revision is that of the list of pools, 0 if it is no number.
func (b *bundle) revision() (revision uint64) {
	for _, l := range b.Lists {
		if l.Kind == "IPPool" {
			revision, _ = strconv.ParseUint(l.ResourceVersion, 10, 64)
		}
	}
	return revision
}
