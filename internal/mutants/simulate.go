package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// simulation plays histories with a mutant until one breaks an invariant.
type simulation struct {
	*runner
	most  int // histories of a seed
	seeds int
}

// build builds the simulator with the i-th mutant.
func (s *simulation) build(ctx context.Context, i int, m *Mutant) (program string, err error) {
	overlay, err := s.writeOverlay(i, m)
	if err != nil {
		return "", err
	}
	if program, err = filepath.Abs(filepath.Join(s.scratch, fmt.Sprintf("sim%d", i))); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-c", "-overlay", overlay, "-o", program, "./sim")
	cmd.Dir, cmd.Stderr = filepath.Join(s.root, "e2e"), os.Stderr
	return program, cmd.Run()
}

var historiesPlayed = regexp.MustCompile(`(\d+) histories, (\d+) invariants broken`)

// until are the histories that each seed needs, sorted; one more than the most where none of them finds the mutant.
func (s *simulation) until(ctx context.Context, program string) (needed []int, err error) {
	for seed := range s.seeds {
		out, err := exec.CommandContext(ctx, program, "-test.run=^TestNoHistoryBreaksAnInvariant$", "-test.v",
			"-test.timeout=0", "-first", "-workers=1", fmt.Sprint("-histories=", s.most),
			fmt.Sprint("-seed=", 1_000_000*(seed+1))).CombinedOutput()
		said := historiesPlayed.FindSubmatch(out)
		if said == nil {
			return nil, fmt.Errorf("the simulator failed: %w\n%s", err, out)
		}
		n, _ := strconv.Atoi(string(said[1]))
		if string(said[2]) == "0" {
			n = s.most + 1
		}
		needed = append(needed, n)
	}
	slices.Sort(needed)
	return needed, nil
}

// calibrate prints how many histories find each mutant.
func (s *simulation) calibrate(ctx context.Context, mutants []*Mutant, tell func(*Mutant, []int)) error {
	for i, m := range mutants {
		program, err := s.build(ctx, i, m)
		if err != nil {
			return err
		}
		needed, err := s.until(ctx, program)
		if err != nil {
			return err
		}
		tell(m, needed)
		if err := os.Remove(program); err != nil {
			return err
		}
	}
	return nil
}
