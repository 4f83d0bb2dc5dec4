package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"
)

type platform struct{ system, arch string }

func (p platform) String() string { return p.system + "_" + p.arch }

// commands are the programs of a platform. Nodes and images are Linux.
func (p platform) commands() []string {
	if p.system != "linux" {
		return []string{"ip-reconcile"}
	}
	return []string{"ip-reconcile", "ip-reconcile-agent", "ip-reconciler"}
}

// program is a program's file in its archive.
func (p platform) program(command string) string {
	if p.system == "windows" {
		return command + ".exe"
	}
	return command
}

// bin is the folder with the programs of a platform.
func (r *release) bin(p platform) string { return filepath.Join(r.temp, "bin", p.String()) }

// build runs `make build`. No flag of the caller's goes into the programs, and nothing of version control: that would
// say whether the tree is a clone, and has tags.
func (r *release) build(p platform) error {
	args := []string{"-C", r.source, "--no-print-directory", "build", "VERSION=" + r.version, "REVISION=" + r.revision,
		"OUT=" + r.bin(p) + "/", "PROGRAMS="}
	for _, command := range p.commands() {
		args[len(args)-1] += " ./cmd/" + command
	}
	cmd := exec.Command("make", args...)
	cmd.Env = append(os.Environ(), "GOOS="+p.system, "GOARCH="+p.arch, "GOFLAGS=-buildvcs=false", "GOWORK=off",
		"GOAMD64=", "GOARM64=", "GOEXPERIMENT=", "MAKEFLAGS=", "MFLAGS=", "MAKELEVEL=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make build for %s: %w\n%s", p, err, out)
	}
	return nil
}

// archives builds the programs, and packs each with its SBOM beside it.
func (r *release) archives() error {
	var packing errgroup.Group
	packing.SetLimit(runtime.NumCPU())
	for _, p := range r.platforms {
		if err := r.build(p); err != nil {
			return err
		}
		for _, command := range p.commands() {
			packing.Go(func() error { return r.archive(p, command) })
		}
	}
	if err := packing.Wait(); err != nil {
		return err
	}
	return r.krew()
}

// archiveName is the name of an archive of a command.
func (r *release) archiveName(p platform, command string) string {
	suffix := ".tar.gz"
	if p.system == "windows" {
		suffix = ".zip"
	}
	return command + "_" + r.version + "_" + p.String() + suffix
}

func (r *release) archive(p platform, command string) error {
	program := filepath.Join(r.bin(p), p.program(command))
	all := []file{{p.program(command), 0o755, nil}, {"LICENSE", 0o644, nil}, {"README.md", 0o644, nil}}
	for i, path := range []string{program, filepath.Join(r.source, "LICENSE"), filepath.Join(r.source, "README.md")} {
		var err error
		if all[i].data, err = os.ReadFile(path); err != nil {
			return err
		}
	}
	pack, name := r.tgz, r.archiveName(p, command)
	if p.system == "windows" {
		pack = r.zip
	}
	data, err := pack(all)
	if err != nil {
		return err
	}
	return errors.Join(r.put(name, data), r.sbom(name, program))
}

// krew writes the manifest of the plugin for kubectl. Its archives are those of the command, which krew links as
// kubectl-ip_reconcile.
func (r *release) krew() error {
	text := `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata: {name: ip-reconcile}
spec:
  version: v` + r.version + `
  homepage: ` + home + `
  shortDescription: Find and release leaked whereabouts IPs
  description: |
    Finds and releases IP addresses that whereabouts, the CNI IPAM plugin, has leaked. It explains each verdict, and
    shows how full pools are.
  platforms:
`
	for _, p := range r.platforms {
		name := r.archiveName(p, "ip-reconcile")
		sum, err := sumOf(filepath.Join(r.folder, name))
		if err != nil {
			return err
		}
		text += fmt.Sprintf(`  - selector: {matchLabels: {os: %s, arch: %s}}
    uri: %s/releases/download/v%s/%s
    sha256: %s
    bin: %s
    files: [{from: %[7]s, to: .}, {from: LICENSE, to: .}]
`, p.system, p.arch, home, r.version, name, sum, p.program("ip-reconcile"))
	}
	return r.put("krew.yaml", []byte(text))
}
