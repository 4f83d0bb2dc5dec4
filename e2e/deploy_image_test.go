//go:build !slow && !cluster

package e2e

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheImageHasTheProgramsThatAreRunFromIt(t *testing.T) {
	t.Parallel()
	dockerfile, makefile := string(try(os.ReadFile("../deploy/Dockerfile")).must(t)), string(try(os.ReadFile("../Makefile")).must(t))
	_, final, found := strings.Cut(dockerfile, "\nFROM scratch AS drop-in\n")
	dropIn, final2, found2 := strings.Cut(final, "\nFROM drop-in\n")
	if !found || !found2 || strings.Contains(dropIn+final2, "FROM ") {
		t.Fatal("the final stage is not from scratch")
	}
	// The drop-in's pods set no user, and read what whereabouts' do.
	user := regexp.MustCompile(`(?m)^USER (\S+)$`)
	equal(t, "the user of the drop-in", user.FindAllStringSubmatch(dropIn, -1), [][]string{{"USER 0:0", "0:0"}})
	equal(t, "the user", user.FindAllStringSubmatch(final2, -1), [][]string{{"USER 65532:65532", "65532:65532"}})
	contains(t, "make image", makefile, "docker build -t $(IMAGE)-drop-in:$(VERSION) --target drop-in ")
	if strings.Contains(final, "RUN ") {
		t.Error("the final stage has a shell")
	}
	var programs []string
	for _, copied := range regexp.MustCompile(`(?m)^COPY --from=build (.*) /$`).FindAllStringSubmatch(final, -1) {
		for _, source := range strings.Fields(copied[1]) {
			name := path.Base(source)
			programs = append(programs, "/"+name)
			if source != "/src/bin/"+name || !regexp.MustCompile(`\./cmd/`+name+`(\s|$)`).MatchString(makefile) {
				t.Errorf("make build does not build %s from ./cmd/%s", source, name)
			}
			if _, err := os.Stat("../cmd/" + name); err != nil {
				t.Error(err)
			}
		}
	}
	for _, file := range []string{"../docs/install.md", "../deploy/whereabouts/README.md"} {
		for _, image := range regexp.MustCompile(`set image \S+ \S+=(\S+)`).FindAllStringSubmatch(string(try(os.ReadFile(file)).must(t)), -1) {
			contains(t, "what replaces whereabouts' image in "+file, image[1], "/ip-reconcile-drop-in:")
		}
	}
	run := []string{"/ip-reconciler"} // by whereabouts' own manifests, where only the image is replaced
	for _, values := range []string{"mode: deployment", "mode: cronjob"} {
		objects, err := helm(metav1.NamespaceSystem, values)
		check(t, err)
		run = append(run, reconcilerPod(t, objects).Spec.Containers[0].Command[0], daemonSet(t, objects).Spec.Template.Spec.Containers[0].Command[0])
	}
	for _, program := range run {
		if !slices.Contains(programs, program) {
			t.Errorf("%s is run, and not in the image, which has %v", program, programs)
		}
	}
}

// TestNoImageHasANameThatNobodyOwns: whoever registers the name of an image that
// manifests have by default runs as root on all nodes.
func TestNoImageHasANameThatNobodyOwns(t *testing.T) {
	t.Parallel()
	chart := try(loader.LoadDir(chartFolder)).must(t)
	version := chart.Metadata.AppVersion
	equal(t, "the version and the image's tag", chart.Metadata.Version, version)
	equal(t, "the image of the cluster tests", productImage, imageToSet+":"+version)
	equal(t, "the chart's default repository", chart.Values["image"].(map[string]any)["repository"], "")
	for _, file := range try(filepath.Glob("../deploy/*/*.yaml")).must(t) {
		for _, image := range regexp.MustCompile(`(?m)^ +image: (\S+)`).FindAllStringSubmatch(string(try(os.ReadFile(file)).must(t)), -1) {
			equal(t, file, image[1], productImage) // .invalid is a name that nobody can have (RFC 6761)
		}
	}
	digest := "sha256:" + strings.Repeat("0f", 32)
	for values, want := range map[string]string{
		"{repository: r.example.com:5000/i}":                               "r.example.com:5000/i:" + version,
		"{repository: r.example.com/i, tag: v1}":                           "r.example.com/i:v1",
		"{repository: r.example.com/i, digest: '" + digest + "'}":          "r.example.com/i:" + version + "@" + digest,
		"{repository: r.example.com/i, tag: v1, digest: '" + digest + "'}": "r.example.com/i:v1@" + digest,
	} {
		objects, err := helm(metav1.NamespaceSystem, "image: "+values)
		check(t, err)
		for _, pod := range []corev1.PodSpec{reconcilerPod(t, objects).Spec, daemonSet(t, objects).Spec.Template.Spec} {
			equal(t, values, pod.Containers[0].Image, want)
		}
	}
}

func TestTheImageSaysWhatItIsAndIsBuiltByAKnownGo(t *testing.T) {
	t.Parallel()
	dockerfile := string(try(os.ReadFile("../deploy/Dockerfile")).must(t))
	if !regexp.MustCompile(`(?m)^ARG GO_IMAGE=golang:1\.\d+\.\d+(@sha256:[0-9a-f]{64})?$`).MatchString(dockerfile) {
		t.Error("the image that builds is not of one version")
	}
	for _, from := range regexp.MustCompile(`(?m)^FROM (.*)`).FindAllStringSubmatch(dockerfile, -1) {
		if from[1] != "scratch AS drop-in" && from[1] != "drop-in" && !strings.Contains(from[1], "${GO_IMAGE}") {
			t.Errorf("it is built from %s", from[1])
		}
	}
	chart := try(loader.LoadDir(chartFolder)).must(t)
	made := string(try(exec.Command("make", "-C", "..", "--no-print-directory", "-n", "build", "REVISION=abc").Output()).must(t))
	source := string(try(os.ReadFile("../internal/version/version.go")).must(t))
	for name, value := range map[string]string{"linkedVersion": chart.Metadata.Version, "linkedRevision": "abc"} {
		contains(t, "make build", made, "-X github.com/ip-reconcile/ip-reconcile/internal/version."+name+"="+value)
		contains(t, "what is linked in", source, name)
	}
	contains(t, "the image's build", dockerfile, "make build ${VERSION:+VERSION=$VERSION} REVISION=$REVISION")
	for _, label := range []string{"title", "description", "version", "revision", "licenses"} {
		contains(t, "the labels", dockerfile, "org.opencontainers.image."+label+"=")
	}
}
