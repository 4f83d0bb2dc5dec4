package harness

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Leftovers lists what remains of clusters with dead owners on the machine: their folders, links, cgroups, mounts,
// which keep network namespaces, and processes. Running clusters, of this process or another, are not listed.
func Leftovers() ([]string, error) {
	if err := os.MkdirAll(runsDir(), 0o700); err != nil {
		return nil, err
	}
	unlock, err := lockRuns() // no run begins or ends meanwhile
	if err != nil {
		return nil, err
	}
	defer unlock()
	ids, err := idsOfRuns()
	if err != nil {
		return nil, err
	}
	var left []string
	for _, id := range ids {
		dir := filepath.Join(runsDir(), id)
		unlock, err := takeOver(dir)
		if err != nil {
			return left, err
		}
		if unlock == nil {
			continue
		}
		unlock()
		of, err := leftoversOf(dir)
		if err != nil {
			return left, err
		}
		left = append(left, of...)
	}
	return left, nil
}

// idsOfRuns are the ids of all runs with a trace on the machine.
func idsOfRuns() ([]string, error) {
	links, err := filepath.Glob("/sys/class/net/*")
	folders, err1 := filepath.Glob(runsDir() + "/*")
	groups, err2 := cgroups(linkPrefix(""))
	texts := append(append(links, folders...), groups...)
	files, err3 := filepath.Glob("/proc/[0-9]*")
	for _, process := range files {
		for _, name := range []string{"cmdline", "mountinfo"} {
			text, _ := os.ReadFile(filepath.Join(process, name)) // one that has ended has nothing to read
			texts = append(texts, string(text))
		}
	}
	trace := regexp.MustCompile("(?:/" + linkPrefix("") + "|" + regexp.QuoteMeta(runsDir()) + "/)([0-9a-f]{6})")
	seen := map[string]bool{}
	for _, text := range texts {
		for _, found := range trace.FindAllStringSubmatch(text, -1) {
			seen[found[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(seen)), errors.Join(err, err1, err2, err3)
}

// leftoversOf are the leftovers of one run, by its folder.
func leftoversOf(place string) (left []string, err error) {
	prefix := linkPrefix(filepath.Base(place))
	if _, err = os.Stat(place); err == nil {
		left = append(left, place)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	links, linksErr := filepath.Glob("/sys/class/net/" + prefix + "*")
	groups, groupsErr := cgroups(prefix)
	left = append(append(left, links...), groups...)
	mounts, readErr := os.ReadFile("/proc/self/mountinfo")
	if strings.Contains(string(mounts), place) {
		left = append(left, "mounts below "+place)
	}
	processes, processesErr := processesOf(place)
	return append(left, processes...), errors.Join(err, linksErr, groupsErr, readErr, processesErr)
}

// processesOf are those that have the place in their command line, or in mounts that this process does not have: those
// on a node.
func processesOf(place string) ([]string, error) {
	here, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	var found []string
	for _, file := range files {
		// A process that has ended since has nothing to read.
		line, _ := os.ReadFile(file)
		belongs := strings.Contains(string(line), place)
		if there, err := os.Readlink(filepath.Dir(file) + "/ns/mnt"); err == nil && there != here {
			mounts, _ := os.ReadFile(filepath.Dir(file) + "/mountinfo")
			belongs = belongs || strings.Contains(string(mounts), place)
		}
		if belongs {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found, err
}
