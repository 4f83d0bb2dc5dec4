package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// The names by which kubectl calls the program: as the plugin ip-reconcile, and to complete its command line (kubectl
// v0.36.3, pkg/cmd/plugin/plugin_completion.go). Each is a link to the program.
const (
	pluginName   = "kubectl-ip_reconcile"
	completeName = "kubectl_complete-ip_reconcile"
)

func calledAs() string { return strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") }

func commandName() string {
	if calledAs() == pluginName {
		return "kubectl ip-reconcile"
	}
	return "ip-reconcile"
}

// arguments returns the arguments of the command line. kubectl asks for completions without a command of its own.
func arguments() []string {
	if calledAs() == completeName {
		return append([]string{cobra.ShellCompRequestCmd}, os.Args[1:]...)
	}
	return os.Args[1:]
}

func rename(c *cobra.Command, name string) {
	const plain = "ip-reconcile"
	if name == plain {
		return
	}
	if !c.HasParent() {
		c.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	}
	c.Example = strings.ReplaceAll("\n"+c.Example, "\n  "+plain+" ", "\n  "+name+" ")[1:]
	c.Long = strings.ReplaceAll(c.Long, "'"+plain+" ", "'"+name+" ")
	for _, sub := range c.Commands() {
		rename(sub, name)
	}
}
