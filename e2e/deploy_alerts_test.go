//go:build !slow && !cluster

package e2e

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/internal/monitoring"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// TestDocs_EachMetric searches for the metrics' names where metrics are created.
func TestDocs_EachMetric(t *testing.T) {
	t.Parallel()
	page := string(try(os.ReadFile("../docs/operate/metrics.md")).must(t))
	created := regexp.MustCompile(`(?:\b(?:vec|counter|gauge)\(|Name: +(?:prefix \+ )?)"(?:ip_reconcile_)?([a-z_]+[a-z])"`)
	n := 0
	for _, file := range []string{"../reconciler/serve/metrics.go", "../agent/health.go"} {
		for _, m := range created.FindAllStringSubmatch(string(try(os.ReadFile(file)).must(t)), -1) {
			n++
			if !regexp.MustCompile("`" + m[1] + "[`{]").MatchString(page) {
				t.Errorf("docs/operate/metrics.md does not have the metric %s of %s", m[1], file)
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d metrics are created", n)
	}
}

// words are those that begin the items of a section's list in docs/operate/troubleshooting.md.
func words(t *testing.T, section string) (words []string) {
	t.Helper()
	page := string(try(os.ReadFile("../docs/operate/troubleshooting.md")).must(t))
	_, text, found := strings.Cut(page, "\n## "+section+"\n")
	if !found {
		t.Fatalf("docs/operate/troubleshooting.md has no section %s", section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	for _, item := range regexp.MustCompile("(?m)^- (`\\w+`(?:, `\\w+`)*)").FindAllStringSubmatch(text, -1) {
		words = append(words, strings.Split(strings.Trim(item[1], "`"), "`, `")...)
	}
	if len(words) < 3 {
		t.Fatalf("docs/operate/troubleshooting.md has %q under %s", words, section)
	}
	return words
}

// heldReasons are the reasons of the rows that hold, by the page that is written from the verdict table.
func heldReasons(t *testing.T) (reasons []string) {
	t.Helper()
	page := string(try(os.ReadFile("../docs/reference/verdicts.md")).must(t))
	for _, row := range regexp.MustCompile(`\*\*Held, (\w+)`).FindAllStringSubmatch(page, -1) {
		reasons = append(reasons, row[1])
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
}

// The page has what a word's own explanation, which 'ip-reconcile explain WORD' prints for all, does not say.
func TestDocs_EachWordOfTroubleshooting(t *testing.T) {
	t.Parallel()
	var refusals, kinds []string
	for _, r := range plan.Refusals() {
		refusals = append(refusals, string(r))
	}
	for _, k := range findings.Kinds() {
		kinds = append(kinds, string(k))
	}
	for section, printed := range map[string][]string{"Held": heldReasons(t), "Refusals": refusals,
		"Findings": kinds} {
		for _, word := range words(t, section) {
			if !slices.Contains(printed, word) {
				t.Errorf("docs/operate/troubleshooting.md has %s under %s", word, section)
			}
		}
	}
}

func TestDocs_EachMessageOfAgents(t *testing.T) {
	t.Parallel()
	page := string(try(os.ReadFile("../docs/operate/troubleshooting.md")).must(t))
	source := ""
	files := slices.Concat(try(filepath.Glob("../agent/*.go")).must(t), try(filepath.Glob("../agent/*/*.go")).must(t))
	for _, file := range files {
		source += string(try(os.ReadFile(file)).must(t))
	}
	source = regexp.MustCompile(`" \+\s*"`).ReplaceAllString(source, "")
	_, agents, _ := strings.Cut(page, "\n## A node has no fresh report\n")
	messages := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(agents, -1)
	for _, message := range messages {
		contains(t, "the agent", source, message[1])
	}
	if len(messages) < 5 {
		t.Errorf("the page has %d messages of agents", len(messages))
	}
}

// Terminating ends by itself, or becomes StuckTerminating. What a virtual machine keeps is held as long as that has it.
func TestAlerts_CoverReasonsThatNeedAnOperator(t *testing.T) {
	t.Parallel()
	reasons := heldReasons(t)
	if len(reasons) < 10 || !slices.Contains(reasons, "ClaimedByOther") {
		t.Fatalf("docs/reference/verdicts.md has %q", reasons)
	}
	matcher := regexp.MustCompile(`oldest_held_timestamp_seconds\{reason(=|=~|!~)"([^"]*)"`)
	for _, reason := range reasons {
		alerted := 0
		for _, a := range monitoring.Alerts() {
			for _, m := range matcher.FindAllStringSubmatch(a.Expr, -1) {
				if regexp.MustCompile("^(?:"+m[2]+")$").MatchString(reason) == (m[1] != "!~") {
					alerted++
				}
			}
		}
		want := 1
		if slices.Contains([]string{"Terminating", "Claimed", "GuestAddress"}, reason) {
			want = 0
		}
		equal(t, "alerts for "+reason, alerted, want)
	}
}

func TestImage_HasThePrograms(t *testing.T) {
	t.Parallel()
	dockerfile, makefile := string(try(os.ReadFile("../deploy/Dockerfile")).must(t)),
		string(try(os.ReadFile("../Makefile")).must(t))
	_, final, found := strings.Cut(dockerfile, "\nFROM scratch AS drop-in\n")
	dropIn, final2, found2 := strings.Cut(final, "\nFROM drop-in\n")
	if !found || !found2 || strings.Contains(dropIn+final2, "FROM ") {
		t.Fatal("the final stage is not from scratch")
	}
	// The drop-in's pods set no user, and read the files that whereabouts' pods read.
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
	for _, file := range []string{"../docs/install/drop-in.md", "../docs/install/migrate.md"} {
		text := string(try(os.ReadFile(file)).must(t))
		for _, image := range regexp.MustCompile(`set image \S+ \S+=(\S+)`).FindAllStringSubmatch(text, -1) {
			if image[1] != "WHEREABOUTS_IMAGE" { // the way back
				contains(t, "what replaces whereabouts' image in "+file, image[1], "/ip-reconcile-drop-in:")
			}
		}
	}
	run := []string{"/ip-reconciler"} // in whereabouts' own manifests, where only the image is replaced
	for _, values := range []string{"mode: deployment", "mode: cronjob"} {
		objects, err := helm(metav1.NamespaceSystem, values)
		check(t, err)
		run = append(run, reconcilerPod(t, objects).Spec.Containers[0].Command[0], firstOf[appsv1.DaemonSet](t, objects,
			"DaemonSet").Spec.Template.Spec.Containers[0].Command[0])
	}
	for _, program := range run {
		if !slices.Contains(programs, program) {
			t.Errorf("%s is run, and not in the image, which has %v", program, programs)
		}
	}
}

// TestImage_NamesAreOwned: anybody who registers a default image name would run as root on all nodes. Nobody can
// register a .invalid name (RFC 6761), which TestDeploy_ImagesAreThoseOfThePage finds in all that is rendered.
func TestImage_NamesAreOwned(t *testing.T) {
	t.Parallel()
	chart := try(loader.LoadDir(chartFolder)).must(t)
	version := chart.Metadata.AppVersion
	equal(t, "the version and the image's tag", chart.Metadata.Version, version)
	equal(t, "the image of the cluster tests", productImage, imageToSet+":"+version)
	equal(t, "the chart's default repository", chart.Values["image"].(map[string]any)["repository"], "")
}

func TestImage_IsBuiltByOneVersionOfGo(t *testing.T) {
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
}
