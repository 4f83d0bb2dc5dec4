package informers

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// list lists the kind by quorum and page by page, and decodes one object at a time. The LIST of a Reflector, with
// resourceVersion 0, would be read as a whole, since API servers ignore its limit.
func (s *store) list(ctx context.Context) (runtime.Object, error) {
	_, isCustom := s.object.(*unstructured.Unstructured)
	items, revision, err := kube.List(ctx, s.source.Cluster, s.resource, s.namespace, s.name, !isCustom, s.decodeList)
	l := &itemList{ListMeta: metav1.ListMeta{ResourceVersion: revision}}
	for _, i := range items {
		l.Items = append(l.Items, i)
	}
	return l, err
}

// listWatch are the requests of a Reflector.
type listWatch struct{ *toolscache.ListWatch }

// IsWatchListSemanticsUnSupported makes a Reflector list before it watches (client-go v0.37, tools/cache/reflector.go,
// useWatchList). Else it opens a watch that sends all objects first, and the store keeps its old ones until the last of
// them has come: the watch is open meanwhile, and says nothing of what changed before it.
func (listWatch) IsWatchListSemanticsUnSupported() bool { return true }

// listWatch returns the requests of a Reflector, which update the state of the store.
func (s *store) listWatch(core kubernetes.Interface, custom dynamic.Interface) listWatch {
	return listWatch{&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			list, err := s.list(ctx)
			s.handleResult(ctx, "list", err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			w, err := s.watch(ctx, core, custom, opts)
			s.handleResult(ctx, "watch", err)
			if err != nil {
				return nil, err
			}
			s.addWatch()
			return countedWatch{w, sync.OnceFunc(s.removeWatch)}, nil
		},
	}}
}

// countedWatch is an open watch. A Reflector stops it when its stream has ended.
type countedWatch struct {
	watch.Interface
	onStop func()
}

func (w countedWatch) Stop() {
	w.onStop()
	w.Interface.Stop()
}

// handleResult makes the caches unverified after a failed request. verb is list or watch.
func (s *store) handleResult(ctx context.Context, verb string, err error) {
	if ctx.Err() != nil {
		return
	}
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	if err == nil {
		if verb == "list" && s.noList != nil {
			s.noList, s.isBack = nil, true
			s.source.invalidate(errNeverVerified)
		}
		return
	}
	s.source.log.Debug("Watch failed", "resource", s.resource.Resource, "error", err)
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || // the Reflector lists everything again
		apierrors.IsTooManyRequests(err) { // the Reflector tries again; a full pass would be a larger load
		return
	}
	if isRefusal(err) {
		if verb == "list" {
			if s.noList != nil {
				return
			}
			s.noList, s.isListed, s.isRead, s.isWarned = err, false, false, false
		} else {
			if s.noWatch != nil {
				return
			}
			s.noWatch = err
			s.warnIfPolled()
		}
		s.source.updateSync()
	}
	wasVerified := s.source.unverified == nil
	s.source.invalidate(fmt.Errorf("list or watch %s: %w", s.resource.Resource, err))
	if wasVerified {
		s.source.onChange("watch") // no event of the watch will request a pass
	}
}

// isRefusal reports whether the API server refuses a request, for lack of a right or of the resource.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// isRefused reports whether the API server refused the last LIST or watch. The caller holds mu.
func (s *store) isRefused() bool { return s.noList != nil || s.noWatch != nil }

// isPolled reports whether only full passes read the kind: it may be listed, and not be watched. The caches lack it
// then, or have an old state. A kind that may not be listed is as unknown to a full pass as to the caches. The caller
// holds mu.
func (s *store) isPolled() bool {
	if s.noList != nil {
		return s.isRead
	}
	return s.noWatch != nil
}

// warnIfPolled warns once of a kind that is listed and cannot be watched. The caller holds mu.
func (s *store) warnIfPolled() {
	if s.noWatch != nil && s.isListed && !s.isWarned {
		s.isWarned = true
		s.source.log.Warn("Cannot watch a resource, making full passes instead; grant the verb watch",
			"resource", s.resource.Resource, "verb", "watch", "error", s.noWatch)
	}
}

func (s *store) addWatch() {
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	s.watches++
	s.source.opens++
	if s.isRefused() || s.isBack {
		s.source.log.Info("Started watching a resource that was forbidden or missing", "resource", s.resource.Resource)
		s.noList, s.noWatch, s.isBack, s.isWarned = nil, nil, false, false
		s.source.invalidate(errNeverVerified)
		s.source.updateSync()
	}
	s.source.onChange("watch")
}

// isClosed reports whether a kind is not watched although it may be. The caller holds mu.
func (s *store) isClosed() bool { return !s.isRefused() && s.watches == 0 }

func (s *store) removeWatch() {
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	s.watches--
}
