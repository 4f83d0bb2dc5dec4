//go:build cluster

package e2e

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

const (
	thisVersion, previousVersion = "0.1.0", "0.0.9"
	publishedImage               = "example.com/ip-reconcile" // as the pages call it
)

// The test publishes a release, installs the one before it, upgrades, goes back and uninstalls. Each command is on a
// page of docs. At the end the cluster has what it had before.
func TestHelm_FromARegistryAndBack(t *testing.T) {
	t.Parallel()
	o := &operator{folder: t.TempDir()}
	release := o.releases(t)
	o.installation = ready(t, 2)
	t.Cleanup(func() { o.oracle.check(t) })
	o.mustKubectl(t, "delete", "-f", "../deploy/crds", "-f", "../deploy/leases") // those of the harness
	release.wait().exits(t, 0)
	o.publish(t)
	o.start(t, workload("stays", "worker-1", "blue"))
	before, install := try(objectsIn(t, o.Config())).must(t), "docs/install/helm.md"

	o.chart = publishedChart + " --version " + previousVersion
	o.does(t, o.commandOf(t, install, "helm install"))
	o.runs(t, previousVersion)
	worker, lost := o.cluster.Worker("worker-2"), o.start(t, workload("lost", "worker-2", "blue"))
	o.waitReported(t, lost)
	check(t, worker.LoseDELs(true))
	check(t, o.DeletePod(t.Context(), lost, 1))
	o.ends(t, worker, addressOn(t, lost, "net1"))
	check(t, worker.LoseDELs(false))

	o.chart = publishedChart // the newest
	o.follow(t, "docs/install/upgrade.md", "Upgrade")
	o.runs(t, thisVersion)
	t.Logf("released %s after the upgrade", o.waitReleased(t, soon, "10.1.0.0-24", "2"))
	_, _, err := o.Kubectl(t.Context(), "-n", "kube-system", "get", "configmap", "only-in-"+previousVersion)
	equal(t, "the upgrade deletes what the new chart lacks", err != nil, true)
	o.does(t, o.commandOf(t, install, "helm test"))

	o.pauseAll(t, "true")
	o.patch(t, harness.IPPools, "10.1.0.0-24", pausing("true"))
	if out, err := o.command(t, o.commandOf(t, install, "helm test")).CombinedOutput(); err == nil {
		t.Errorf("the test succeeds while releases are paused:\n%s", out)
	}
	contains(t, "the log", o.does(t, o.commandOf(t, install, "kubectl -n kube-system logs")), "All releases are paused")
	o.follow(t, "docs/install/upgrade.md", "Back")
	o.runs(t, previousVersion)

	for _, section := range []string{"Before", "1. Remove ip-reconcile", "2. Remove what stays"} {
		o.follow(t, "docs/install/uninstall.md", section)
	}
	var left []string
	if !within(soon, time.Second, func() bool {
		now, err := objectsIn(t, o.Config())
		left = changedBetween(before, now)
		return err == nil && len(left) == 0
	}) {
		t.Errorf("docs/install/uninstall.md leaves, or removes too much:\n%s", strings.Join(left, "\n"))
	}
	t.Run("then whereabouts' Deployment runs our image", o.playWhereaboutsDeployment)
}

// An operator types the commands of the pages in a folder that has deploy and dist.
type operator struct {
	*installation
	folder string
	env    []string
	chart  string // with its version, in place of the folder that the pages name
}

// releases begins `make release` for this machine's platform.
func (o *operator) releases(t *testing.T) *command {
	t.Helper()
	cmd := exec.Command("go", "run", "./cmd/release", "-image", publishedImage, "-version", thisVersion,
		"-revision", "abc", "-platforms", "linux/"+runtime.GOARCH, "..", filepath.Join(o.folder, "dist"))
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1795000000", "GOFLAGS=-trimpath", "CGO_ENABLED=0")
	return start(t, cmd)
}

// publish starts a registry, from which the workers pull the images of example.com, and pushes the image and the charts
// of both versions. The operator gets helm, kubectl and the released command.
func (o *operator) publish(t *testing.T) {
	t.Helper()
	server := httptest.NewUnstartedServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	check(t, server.Listener.Close())
	host := try(url.Parse(o.Config().Host)).must(t).Hostname()
	server.Listener = try(net.Listen("tcp", net.JoinHostPort(host, "0"))).must(t)
	server.Start()
	t.Cleanup(server.Close)
	for _, w := range o.cluster.Workers {
		file := w.Outside("/etc/containerd/certs.d/example.com/hosts.toml")
		check(t, os.MkdirAll(filepath.Dir(file), 0o755))
		check(t, os.WriteFile(file, fmt.Appendf(nil, "server = %q\n", server.URL), 0o644))
	}

	bin, dist, image := t.TempDir(), filepath.Join(o.folder, "dist"), t.TempDir()
	for archive, folder := range map[string]string{
		"ip-reconcile_" + thisVersion + "_linux_" + runtime.GOARCH + ".tar.gz": bin,
		"ip-reconcile-image_" + thisVersion + ".tar":                           image,
	} {
		start(t, exec.Command("tar", "-xf", filepath.Join(dist, archive), "-C", folder)).wait().exits(t, 0)
	}
	content := try(layout.ImageIndexFromPath(image)).must(t)
	index := try(content.ImageIndex(try(content.IndexManifest()).must(t).Manifests[0].Digest)).must(t)
	for _, version := range []string{thisVersion, previousVersion} {
		reference := strings.TrimPrefix(server.URL, "http://") + "/ip-reconcile:" + version
		check(t, remote.WriteIndex(try(name.ParseReference(reference, name.Insecure)).must(t), index))
	}

	helm := strings.TrimSpace(string(try(exec.Command("go", "tool", "-n", "helm").Output()).must(t)))
	for program, script := range map[string]string{
		"kubectl": fmt.Sprintf(`exec %s kubectl "$@"`, o.KubectlProgram()),
		"helm": fmt.Sprintf(`case $1 in push|install|upgrade) set -- "$@" --plain-http ;; esac
exec %s "$@"`, helm),
	} {
		check(t, os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	check(t, os.CopyFS(filepath.Join(o.folder, "deploy"), os.DirFS("../deploy")))
	o.env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "KUBECONFIG=" + o.Kubeconfig(),
		"HTTP_PROXY=" + server.URL} // the registry answers for example.com
	push := o.commandOf(t, "docs/contribute/development.md", "helm push")
	o.does(t, push)
	o.does(t, strings.ReplaceAll(push, "dist/ip-reconcile-"+thisVersion+".tgz", o.previousChart(t)))
}

// previousChart is the chart of this release with another version. It has an object that the release lacks, and its CRD
// lacks a field that the agents write.
func (o *operator) previousChart(t *testing.T) (file string) {
	t.Helper()
	chart := try(loader.LoadFile(filepath.Join(o.folder, "dist", "ip-reconcile-"+thisVersion+".tgz"))).must(t)
	chart.Metadata.Version, chart.Metadata.AppVersion = previousVersion, previousVersion
	chart.Templates = append(chart.Templates, &common.File{Name: "templates/old.yaml", Data: []byte(
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: only-in-" + previousVersion + "}\n")})
	for _, f := range chart.Files {
		if strings.HasPrefix(f.Name, "crds/") {
			crd := try(harness.Documents(string(f.Data))).must(t)[0]
			versions := crd.Object["spec"].(map[string]any)["versions"].([]any)
			unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "gone")
			f.Data = try(yaml.Marshal(crd.Object)).must(t)
		}
	}
	return try(chartutil.Save(chart, o.folder)).must(t)
}

// runs waits until the pods of both workloads have the image of a version, and are ready.
func (o *operator) runs(t *testing.T, version string) {
	t.Helper()
	o.rolledOut(t, "daemonset/ip-reconcile-agent", "deployment/ip-reconcile")
	for _, workload := range []string{"daemonset/ip-reconcile-agent", "deployment/ip-reconcile"} {
		equal(t, "the image of "+workload, o.mustKubectl(t, "-n", "kube-system", "get", workload,
			"-o=jsonpath={.spec.template.spec.containers[*].image}"), publishedImage+":"+version)
	}
}

// commandOf is the first command of a page that begins with these words.
func (o *operator) commandOf(t *testing.T, page, prefix string) string {
	t.Helper()
	text := string(try(os.ReadFile("../" + page)).must(t))
	for _, c := range commandsOf(page, text) {
		if strings.HasPrefix(c.text, prefix+" ") {
			return c.text
		}
	}
	t.Fatalf("%s has no command %q", page, prefix)
	return ""
}

var byKustomize = regexp.MustCompile(`(?m)^With kustomize:\n\n(    .*\n)+`)

// follow types the commands of a section, but for those of kustomize.
func (o *operator) follow(t *testing.T, page, title string) {
	t.Helper()
	text := string(try(os.ReadFile("../" + page)).must(t))
	for _, section := range strings.Split("#"+text, "\n## ") {
		if heading, _, _ := strings.Cut(section, "\n"); strings.TrimLeft(heading, "# ") != title {
			continue
		}
		commands := commandsOf(page, byKustomize.ReplaceAllString(section, ""))
		for _, c := range commands {
			o.does(t, c.text)
		}
		equal(t, title+" has commands", len(commands) > 0, true)
		return
	}
	t.Fatalf("%s has no section %q", page, title)
}

func (o *operator) command(t *testing.T, text string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(text, "deploy/helm/ip-reconcile", o.chart))
	cmd.Dir, cmd.Env = o.folder, o.env
	return cmd
}

// does types a command. It repeats those that fail while a Lease is renewed late, as on a machine under load.
func (o *operator) does(t *testing.T, text string) (output string) {
	t.Helper()
	asks := regexp.MustCompile(`^(helm test|ip-reconcile status) `).MatchString(text + " ")
	began := time.Now()
	for {
		out, err := o.command(t, text).CombinedOutput()
		if err == nil {
			t.Logf("%s took %.1fs", text, time.Since(began).Seconds())
			return string(out)
		}
		if !asks || time.Since(began) > soon {
			t.Fatalf("%s: %v\n%s", text, err, out)
		}
	}
}
