package snapshot_test

import (
	"strings"
	"testing"
)

// jsonList is what 'kubectl get … -A -o json' writes: four spaces, keys in
// order, and <, > and & escaped.
const jsonList = `{
    "apiVersion": "v1",
    "items": [
        {
            "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
            "kind": "IPPool",
            "metadata": {
                "name": "p",
                "namespace": "kube-system",
                "resourceVersion": "1234"
            },
            "spec": {
                "allocations": {
                    "18446463705355360228": {
                        "id": "c1",
                        "podref": "default/live"
                    },
                    "5": {
                        "id": "c5",
                        "podref": "default/a"
                    },
                    "6": {
                        "id": "c6",
                        "podref": "default/b"
                    }
                },
                "range": "fd00::/64"
            }
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "annotations": {
                    "big": "18446744073709551615",
                    "odd": "é \" \\ / \t \b 😀 \u0000 \u2028 ~"
                },
                "generation": 9007199254740993,
                "name": "a",
                "namespace": "default"
            },
            "spec": {
                "exponent": 1e400,
                "fraction": 1.10,
                "large": 123456789012345678901234567890,
                "minus": -0,
                "none": null,
                "nothing": [],
                "yes": true
            }
        }
    ],
    "kind": "List",
    "metadata": {
        "resourceVersion": ""
    }
}
`

var jsonEntry = []string{`                    "5": {`, `                        "id": "c5",`, `                        "podref": "default/a"`, `                    },`}

// onlyEntryGone checks that of the text before only these lines are missing,
// which stand together.
func onlyEntryGone(t *testing.T, before, after string, lines []string) {
	t.Helper()
	entry := strings.Join(lines, "\n") + "\n"
	if strings.Count(before, entry) != 1 {
		t.Fatal("test data: the entry is not there once")
	}
	same(t, "the file", after, strings.Replace(before, entry, "", 1))
}

func TestOnlyTheEntryGoesFromAJSONListThatKubectlWrote(t *testing.T) {
	dir := folder(t, map[string]string{"all.json": jsonList})
	release(t, open(t, dir), "p", "5")
	onlyEntryGone(t, jsonList, read(t, dir+"/all.json"), jsonEntry)
}

func TestLargeNumbersAndOddStringsOfAJSONFileStayAsTheyAre(t *testing.T) {
	dir := folder(t, map[string]string{"all.json": jsonList})
	release(t, open(t, dir), "p", "5")
	after := read(t, dir+"/all.json")
	for _, want := range []string{
		`9007199254740993`, `123456789012345678901234567890`, `1e400`, `1.10`, `"minus": -0`, `"18446744073709551615"`, `"nothing": []`, `"none": null`,
		`"é \" \\ / \t \b 😀 \u0000 \u2028 ~"`, `"18446463705355360228": {`,
	} {
		if !strings.Contains(after, want) {
			t.Errorf("%s is not in the file any more", want)
		}
	}
}

// kubectl escapes <, > and & as every Go program does by default.
func TestAngleBracketsThatKubectlEscapedStayEscaped(t *testing.T) {
	text := strings.Replace(jsonList, `"18446744073709551615"`, `"a \u003c b \u0026\u0026 c \u003e d"`, 1)
	dir := folder(t, map[string]string{"all.json": text})
	release(t, open(t, dir), "p", "5")
	onlyEntryGone(t, text, read(t, dir+"/all.json"), jsonEntry)
}

func TestAngleBracketsThatAreNotEscapedStayThatWay(t *testing.T) {
	text := strings.Replace(jsonList, `"18446744073709551615"`, `"a < b && c > d"`, 1)
	dir := folder(t, map[string]string{"all.json": text})
	release(t, open(t, dir), "p", "5")
	onlyEntryGone(t, text, read(t, dir+"/all.json"), jsonEntry)
}

func TestAJSONFileKeepsItsIndentation(t *testing.T) {
	for title, indent := range map[string]string{"tabs": "\t", "two spaces": "  ", "one space": " "} {
		t.Run(title, func(t *testing.T) {
			respace := func(text string) string {
				lines := strings.Split(text, "\n")
				for i, line := range lines {
					rest := strings.TrimLeft(line, " ")
					lines[i] = strings.Repeat(indent, (len(line)-len(rest))/4) + rest
				}
				return strings.Join(lines, "\n")
			}
			dir := folder(t, map[string]string{"all.json": respace(jsonList)})
			release(t, open(t, dir), "p", "5")
			onlyEntryGone(t, respace(jsonList), read(t, dir+"/all.json"), strings.Split(respace(strings.Join(jsonEntry, "\n")), "\n"))
		})
	}
}

func TestJSONInOneLineStaysInOneLine(t *testing.T) {
	const text = `{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"IPPool","metadata":{"name":"p","namespace":"x"},"spec":{"allocations":{"5":{"id":"c5","podref":"default/a"}},"range":"10.0.0.0/24"}}` + "\n"
	dir := folder(t, map[string]string{"p.json": text})
	release(t, open(t, dir), "p", "5")
	same(t, "the file", read(t, dir+"/p.json"), strings.Replace(text, `{"5":{"id":"c5","podref":"default/a"}}`, `{}`, 1))
}

func TestTheLastEntryOfAJSONPoolLeavesAnEmptyMap(t *testing.T) {
	dir := folder(t, map[string]string{"all.json": jsonList})
	release(t, open(t, dir), "p", "5", "6", "18446463705355360228")
	if after := read(t, dir+"/all.json"); !strings.Contains(after, `"allocations": {},`) {
		t.Errorf("the file is now\n%s", after)
	}
}
