package servecmd

import (
	"context"
	"log/slog"
)

// quiet is a handler that drops everything below warnings: controller-runtime's other
// lines repeat ours.
type quiet struct{ slog.Handler }

// Enabled is a Handler's.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && q.Handler.Enabled(ctx, level)
}

// WithAttrs is a Handler's.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

// WithGroup is a Handler's.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }
