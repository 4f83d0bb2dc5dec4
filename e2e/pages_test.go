package e2e

import (
	"fmt"
	"regexp"
	"strings"
)

// publishedChart is where the pages have the chart of a release.
const publishedChart = "oci://example.com/charts/ip-reconcile"

// A pageCommand is a command of a page, with the place where it begins.
type pageCommand struct {
	place, text string
}

var (
	remark     = regexp.MustCompile(` # .*`)
	inline     = regexp.MustCompile("`((?:kubectl|oc|ip-reconcile) [a-z-]+ [^`]+)`")
	heredoc    = regexp.MustCompile(`<<-?\s*'?(\w+)'?`)
	assignment = regexp.MustCompile(`^(export )?[A-Z_]+=\S+$`)
	program    = regexp.MustCompile(`^(\$ )?(kubectl|helm|oc|ip-reconcile|ip-reconciler|ip-reconcile-agent|` +
		`make|mkdir|cd|for|crictl|systemctl|journalctl|docker|skopeo|cosign|gh|git|go|ln|sudo|curl) `)
)

// commandsOf are the commands in a page's blocks: all lines of sh, those after "$ " of console, and in
// blocks without a language those that begin with a program.
func commandsOf(page, text string) (all []pageCommand) {
	fenced, language, indent := false, "", ""
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line, bare := lines[i], strings.TrimSpace(lines[i])
		if after, ok := strings.CutPrefix(bare, "```"); ok {
			fenced, language, indent = !fenced, after, line[:len(line)-len(strings.TrimLeft(line, " "))]
			continue
		}
		line = strings.TrimPrefix(line, indent)
		if !fenced && !strings.HasPrefix(line, "    ") {
			for _, span := range inline.FindAllStringSubmatch(line, -1) {
				all = append(all, pageCommand{fmt.Sprintf("%s:%d", page, i+1), strings.ReplaceAll(span[1], `\|`, "|")})
			}
		}
		switch {
		case bare == "" || strings.HasPrefix(bare, "#"):
			continue
		case fenced && (language == "sh" || language == "bash" || language == "shell"):
		case fenced && language == "console":
			if !strings.HasPrefix(bare, "$ ") {
				continue
			}
		case fenced && language != "", !program.MatchString(bare), !fenced && !strings.HasPrefix(line, "    "):
			continue
		}
		margin := indent
		if !fenced {
			margin = "    "
		}
		c := pageCommand{fmt.Sprintf("%s:%d", page, i+1), strings.TrimPrefix(bare, "$ ")}
		for i+1 < len(lines) && (strings.HasSuffix(c.text, `\`) || strings.Count(remark.ReplaceAllString(c.text, ""),
			"'")%2 == 1) {
			i++
			c.text += "\n" + lines[i]
		}
		if end := heredoc.FindStringSubmatch(c.text); end != nil {
			for i++; i < len(lines) && strings.TrimSpace(lines[i]) != end[1]; i++ {
				c.text += "\n" + strings.TrimPrefix(lines[i], margin)
			}
			c.text += "\n" + end[1]
		}
		all = append(all, c)
	}
	return all
}
