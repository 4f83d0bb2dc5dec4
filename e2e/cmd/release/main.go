// Command release writes a release of a source tree into a new folder: archives of the programs, images, the chart,
// manifests, SBOMs and checksums. It publishes nothing.
//
// "release [flags] <source> <folder>", with the time of the commit in SOURCE_DATE_EPOCH. Two trees of one commit give
// the same bytes with the same Go version, wherever they are.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const home = "https://github.com/ip-reconcile/ip-reconcile"

// release is what goes into every artefact.
type release struct {
	source, folder string // of the repository, and of the artefacts
	temp           string // has the programs in bin/OS_ARCH
	image          string // the repository of the image, as in example.com/ip-reconcile
	version        string // as in 0.1.0
	revision       string // the commit
	created        time.Time
	platforms      []platform
}

func main() {
	r := &release{}
	flag.StringVar(&r.image, "image", "", "repository of the image, as in example.com/ip-reconcile")
	flag.StringVar(&r.version, "version", "", "version, as in 0.1.0")
	flag.StringVar(&r.revision, "revision", "", "commit of the source")
	platforms := flag.String("platforms", "linux/amd64", "platforms, separated by commas")
	flag.Parse()
	r.source, r.folder = flag.Arg(0), flag.Arg(1)
	if err := r.run(os.Getenv("SOURCE_DATE_EPOCH"), *platforms); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func (r *release) run(epoch, platforms string) (err error) {
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	r.created = time.Unix(seconds, 0).UTC()
	for name := range strings.SplitSeq(platforms, ",") {
		system, arch, _ := strings.Cut(name, "/")
		r.platforms = append(r.platforms, platform{system, arch})
	}
	if r.image == "" || r.version == "" || r.revision == "" || r.source == "" || r.folder == "" {
		return errors.New("-image, -version, -revision, the source and the folder are required")
	}
	if r.source, err = filepath.Abs(r.source); err != nil {
		return err
	}
	if r.temp, err = os.MkdirTemp("", "release"); err != nil {
		return err
	}
	defer os.RemoveAll(r.temp)
	if err := os.Mkdir(r.folder, 0o755); err != nil { // what an earlier release wrote would be in the checksums
		return err
	}
	if err := r.archives(); err != nil {
		return err
	}
	digest, err := r.images()
	if err != nil {
		return err
	}
	return errors.Join(r.chart(digest), r.manifests(digest), r.notes(), r.checksums())
}

// notes writes the section of the version in the changelog. Before its heading is written, that is "Unreleased".
func (r *release) notes() error {
	changelog, err := os.ReadFile(filepath.Join(r.source, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	_, section, hasVersion := strings.Cut(string(changelog), "\n## "+r.version)
	if !hasVersion {
		_, section, _ = strings.Cut(string(changelog), "\n## Unreleased")
	}
	_, section, _ = strings.Cut(section, "\n")
	section, _, _ = strings.Cut(section, "\n## ")
	return r.put("notes.md", []byte(strings.TrimSpace(section)+"\n"))
}
