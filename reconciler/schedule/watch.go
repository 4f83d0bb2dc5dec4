package schedule

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A burst of changes (a volume swap, an editor that truncates and then writes)
// is over when nothing happened for settleFor, and after settleAtMost in any
// case.
const (
	settleFor    = 100 * time.Millisecond
	settleAtMost = time.Second
)

// watch sees changes in the folders of files: any change, since a volume swap
// touches only a link beside the file (kubelet replaces ..data, to which the
// file is a link). Where a folder is missing its nearest ancestor is watched
// until it appears. A watch that cannot be had sees nothing.
type watch struct {
	files []string
	log   *slog.Logger
	open  func() (*fsnotify.Watcher, error)

	watcher *fsnotify.Watcher
	failed  string // what was logged last
}

// arm watches what there is to watch now. Files must be read after it, not
// before: whatever changes later is an event. Folders that are watched already
// are watched again when they were replaced; ancestors that are not needed any
// more stay, they are few.
func (w *watch) arm() {
	if len(w.files) == 0 {
		return
	}
	var failed string
	if err := w.start(); err != nil {
		failed = err.Error()
	} else {
		for _, file := range w.files {
			if err := w.add(filepath.Dir(file)); err != nil {
				failed = err.Error()
			}
		}
	}
	if failed != "" && failed != w.failed {
		w.log.Warn("cannot watch the files of the schedule; they are read every minute", "error", failed)
	}
	w.failed = failed
}

func (w *watch) start() (err error) {
	if w.watcher != nil {
		return nil
	}
	open := w.open
	if open == nil {
		open = fsnotify.NewWatcher
	}
	w.watcher, err = open()
	return err
}

// add watches a folder, or its nearest ancestor that exists.
func (w *watch) add(folder string) error {
	// It may come and go meanwhile: what is watched must still be the nearest.
	// Folders that keep doing so are left to the next recheck.
	for range 10 {
		nearest := existing(folder)
		err := w.watcher.Add(nearest)
		if err != nil && !absent(err) {
			return err
		}
		if err == nil && existing(folder) == nearest {
			return nil
		}
	}
	return nil
}

func existing(folder string) string {
	for {
		if info, err := os.Stat(folder); err == nil && info.IsDir() {
			return folder
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return folder
		}
		folder = parent
	}
}

// settle waits for the end of a burst.
func (w *watch) settle(ctx context.Context) {
	end := time.After(settleAtMost)
	for {
		select {
		case <-ctx.Done():
			return
		case <-end:
			return
		case <-time.After(settleFor):
			return
		case <-w.events():
		}
	}
}

// events never has any where there is no watch.
func (w *watch) events() <-chan fsnotify.Event {
	if w.watcher == nil {
		return nil
	}
	return w.watcher.Events
}

// errors are those of the watch; after one, events may be missing.
func (w *watch) errors() <-chan error {
	if w.watcher == nil {
		return nil
	}
	return w.watcher.Errors
}

func (w *watch) close() {
	if w.watcher != nil {
		_ = w.watcher.Close()
	}
}
