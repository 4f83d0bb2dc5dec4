// Package words explains the words that the program prints: verdicts, reasons, refusals, findings and states. It needs
// no cluster. words.yaml has the texts, but for the rows of the verdict table, which say themselves what they mean.
package words

import (
	_ "embed"
	"maps"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

//go:embed words.yaml
var source []byte

type text struct{ Means, Do string }

// texts returns the texts by kind and word.
var texts = sync.OnceValue(func() map[string]map[string]text {
	all := map[string]map[string]text{}
	if err := yaml.UnmarshalStrict(source, &all); err != nil {
		panic(err) // a test reads it
	}
	return all
})

// Find returns the meanings of a word in any case, by kind; none for an unknown word.
func Find(word string) (found []view.Word) {
	word = strings.TrimSuffix(word, "?") // of an unconfirmed verdict
	if means := judge.RuleMeaning(strings.ToLower(word)); means != "" {
		found = append(found, view.Word{Word: strings.ToLower(word), Kind: "rule", Means: means})
	}
	for _, kind := range slices.Sorted(maps.Keys(texts())) {
		for name, t := range texts()[kind] {
			if strings.EqualFold(name, word) {
				found = append(found, view.Word{Word: name, Kind: kind, Means: t.Means, Do: t.Do})
			}
		}
	}
	return found
}

// Has reports whether there is a meaning of a word.
func Has(word string) bool { return len(Find(word)) > 0 }

// Known returns all words, sorted.
func Known() []string {
	all := map[string]bool{}
	for _, id := range judge.RuleIDs() {
		all[id] = true
	}
	for _, words := range texts() {
		for name := range words {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
