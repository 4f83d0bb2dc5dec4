//go:build !slow && !cluster

package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestAChartIsXMLWithAllLinesWithinItsAxes(t *testing.T) {
	c := &Chart{Title: "time & size", X: "pods", Y: "wall time", Unit: " s", Lines: []Line{
		{Name: "ours", Color: "#2da44e", Points: [][2]float64{{1000, 0.2}, {50000, 9}}},
		{Name: "theirs <>", Color: "#e8710a", Dashed: true, Points: [][2]float64{{1000, 0.3}, {50000, 61}}},
	}}
	svg := c.SVG()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, axis := range []int{0, 1} {
		s := c.span(axis)
		for _, l := range c.Lines {
			for _, p := range l.Points {
				if at := s.at(p[axis]); at < -0.001 || at > 1.001 {
					t.Errorf("%v of axis %d is at %f of %+v", p, axis, at, s)
				}
			}
		}
	}
	for _, words := range []string{"time &amp; size", "theirs &lt;&gt; 61 s", "10,000"} {
		if !strings.Contains(svg, words) {
			t.Errorf("it does not say %q", words)
		}
	}
}
