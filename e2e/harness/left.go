package harness

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Left is what clusters have on the machine: their folders, links, cgroups, mounts,
// which keep network namespaces, and processes. When none runs it is nothing.
func Left() ([]string, error) { return leftovers(runsDir()+"/", linkPrefix("")) }

// leftoversOf is Left of a run by its folder.
func leftoversOf(dir string) ([]string, error) {
	return leftovers(dir, linkPrefix(filepath.Base(dir)))
}

func leftovers(place, prefix string) ([]string, error) {
	var left []string
	folders, err := filepath.Glob(place + "*")
	for _, f := range folders {
		if info, err := os.Stat(f); err == nil && info.IsDir() {
			left = append(left, f)
		}
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

// processesOf are those that have the place in their command line, or in mounts that
// this process does not have: those on a node.
func processesOf(place string) ([]string, error) {
	here, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	var found []string
	for _, file := range files {
		// One that has ended since has nothing to read.
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
