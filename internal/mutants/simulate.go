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

// simulation plays histories until one breaks an invariant: with whereabouts' own reconciler, and with each mutant.
type simulation struct {
	*runner
	most     int // histories of a seed
	seeds    int
	restores bool // etcd is restored again and again
}

// build builds the simulator with some mutants in it.
func (s *simulation) build(ctx context.Context, mutants []*Mutant) (program string, err error) {
	overlay, err := writeOverlay(s.scratch, mutants, isChosen)
	if err != nil {
		return "", err
	}
	if program, err = filepath.Abs(filepath.Join(s.scratch, "sim")); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-c", "-overlay", overlay, "-o", program, "./sim")
	cmd.Dir, cmd.Stderr = filepath.Join(s.root, "e2e"), os.Stderr
	return program, cmd.Run()
}

var historiesPlayed = regexp.MustCompile(`(\d+) histories, (\d+) invariants broken`)

// until are the histories that each seed needs with the mutant of a number, sorted; one more than the most where none
// of them finds the mutant.
func (s *simulation) until(ctx context.Context, program, number string, flags ...string) (needed []int, err error) {
	for seed := range s.seeds {
		args := append([]string{"-test.run=^TestNoHistoryBreaksAnInvariant$", "-test.v", "-test.timeout=0", "-first",
			"-workers=1", fmt.Sprint("-restores=", s.restores), fmt.Sprint("-histories=", s.most),
			fmt.Sprint("-seed=", 1_000_000*(seed+1))}, flags...)
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = append(os.Environ(), environment+"="+number)
		out, err := cmd.CombinedOutput()
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

// calibrate tells how many histories find wrong releases of whereabouts' own reconciler, and each mutant.
func (s *simulation) calibrate(ctx context.Context, mutants []*Mutant, tell func(what string, needed []int)) error {
	program, err := s.build(ctx, mutants)
	if err != nil {
		return err
	}
	needed, err := s.until(ctx, program, "", "-upstream")
	if err != nil {
		return err
	}
	tell("whereabouts v0.9.4's own reconciler", needed)
	for _, m := range mutants {
		needed, err := s.until(ctx, program, strconv.Itoa(m.number))
		if err != nil {
			return err
		}
		tell(m.Decl+": "+m.Fault, needed)
	}
	return nil
}
