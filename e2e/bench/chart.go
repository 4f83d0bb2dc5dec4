package bench

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// A Line of a chart is drawn through its points, in the order of X.
type Line struct {
	Name, Color string
	Dashed      bool
	Points      [][2]float64
}

// A Chart has a logarithmic scale on both axes: a straight line at 45 degrees is what
// grows with the number. Its colours are in the middle, to be read on light and dark.
type Chart struct {
	Title, X, Y string
	Unit        string // of Y, after a number
	Lines       []Line
}

const (
	chartWidth, chartHeight = 860, 460
	left, right             = 86, 210 // room for the numbers, and for the names of the lines
	top, bottom             = 50, 60
	neutral                 = "#7d8590"
)

// SVG draws it.
func (c *Chart) SVG() string {
	xs, ys := c.span(0), c.span(1)
	x := func(v float64) float64 { return left + (chartWidth-left-right)*xs.at(v) }
	y := func(v float64) float64 { return chartHeight - bottom - (chartHeight-top-bottom)*ys.at(v) }
	var s strings.Builder
	text := func(px, py float64, anchor, color, size, words string) {
		fmt.Fprintf(&s, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s" font-size="%s">%s</text>`+"\n", px, py, anchor, color, size, html.EscapeString(words))
	}
	line := func(x1, y1, x2, y2, opacity float64) {
		fmt.Fprintf(&s, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-opacity="%.2f"/>`+"\n", x1, y1, x2, y2, neutral, opacity)
	}
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif">`+"\n", chartWidth, chartHeight)
	text(left, 26, "start", neutral, "17", c.Title)
	for _, v := range xs.ticks {
		line(x(v), top, x(v), chartHeight-bottom, 0.18)
		text(x(v), chartHeight-bottom+20, "middle", neutral, "13", grouped(v))
	}
	for _, v := range ys.ticks {
		line(left, y(v), chartWidth-right, y(v), 0.18)
		text(left-8, y(v)+4, "end", neutral, "13", grouped(v)+c.Unit)
	}
	line(left, chartHeight-bottom, chartWidth-right, chartHeight-bottom, 1)
	line(left, top, left, chartHeight-bottom, 1)
	text((left+chartWidth-right)/2, chartHeight-16, "middle", neutral, "13", c.X)
	text(left, top-8, "start", neutral, "13", c.Y)
	c.names(text, y)
	for _, l := range c.Lines {
		dash := ""
		if l.Dashed {
			dash = ` stroke-dasharray="6 4"`
		}
		var points []string
		for _, p := range l.Points {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(p[0]), y(p[1])))
			fmt.Fprintf(&s, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`+"\n", x(p[0]), y(p[1]), l.Color)
		}
		fmt.Fprintf(&s, `<polyline fill="none" stroke="%s" stroke-width="2.2"%s points="%s"/>`+"\n", l.Color, dash, strings.Join(points, " "))
	}
	s.WriteString("</svg>\n")
	return s.String()
}

// names writes the lines' names beside their ends, as close as they may be.
func (c *Chart) names(text func(px, py float64, anchor, color, size, words string), y func(float64) float64) {
	lines := slices.Clone(c.Lines)
	end := func(l Line) float64 { return l.Points[len(l.Points)-1][1] }
	slices.SortFunc(lines, func(a, b Line) int { return int(y(end(a)) - y(end(b))) })
	last := 0.0
	for _, l := range lines {
		at := max(y(end(l))+4, last+17)
		last = at
		text(chartWidth-right+12, at, "start", l.Color, "14", fmt.Sprintf("%s %s%s", l.Name, short(end(l)), c.Unit))
	}
}

// A span is what an axis shows.
type span struct {
	low, high float64
	ticks     []float64
}

func (s span) at(v float64) float64 { return math.Log(v/s.low) / math.Log(s.high/s.low) }

// span is that of all points, out to the next 1, 2 or 5 of a power of ten.
func (c *Chart) span(axis int) span {
	low, high := math.Inf(1), 0.0
	for _, l := range c.Lines {
		for _, p := range l.Points {
			low, high = min(low, p[axis]), max(high, p[axis])
		}
	}
	var s span
	for power := math.Pow(10, math.Floor(math.Log10(low))); power <= high; power *= 10 {
		for _, of := range []float64{1, 2, 5} {
			s.ticks = append(s.ticks, of*power)
		}
	}
	s.ticks = append(s.ticks, s.ticks[len(s.ticks)-1]*2)
	first, last := 0, len(s.ticks)-1
	for first+1 < len(s.ticks) && s.ticks[first+1] <= low*1.0001 {
		first++
	}
	for last > 0 && s.ticks[last-1] >= high*0.9999 {
		last--
	}
	s.ticks = s.ticks[first : last+1]
	s.low, s.high = s.ticks[0], s.ticks[len(s.ticks)-1]
	return s
}

// grouped writes 50000 as 50,000.
func grouped(v float64) string {
	if v < 1000 {
		return fmt.Sprintf("%g", math.Round(v*1000)/1000)
	}
	text := fmt.Sprintf("%.0f", v)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// short writes a number with two digits, or as many as it has before the point.
func short(v float64) string {
	switch {
	case v >= 10:
		return grouped(math.Round(v))
	case v >= 1:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
