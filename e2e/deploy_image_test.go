package e2e

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheImageHasTheProgramsThatAreRunFromIt(t *testing.T) {
	t.Parallel()
	dockerfile, makefile := string(try(os.ReadFile("../deploy/Dockerfile")).must(t)), string(try(os.ReadFile("../Makefile")).must(t))
	_, final, found := strings.Cut(dockerfile, "\nFROM scratch\n")
	if !found || strings.Contains(final, "FROM ") {
		t.Fatal("the final stage is not from scratch")
	}
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
