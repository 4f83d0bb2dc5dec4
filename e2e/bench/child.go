package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/used"
)

// run runs a program to its end by way of launch.
func (b *Bench) run(ctx context.Context, program ...string) (*used.Used, error) {
	cmd := exec.CommandContext(ctx, b.program("launch"), program...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("running %v: %w: %s", program, err, errs.String())
	}
	u := &used.Used{}
	if err := json.Unmarshal(out.Bytes(), u); err != nil {
		return nil, fmt.Errorf("reading what %v took: %w", program, err)
	}
	text := errs.String()
	u.Output = text[max(0, len(text)-1000):]
	return u, nil
}
