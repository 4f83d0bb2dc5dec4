package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	fillOver, fillStep = 30 * 24 * time.Hour, 4 * time.Hour // web/fill.js has the same
	// prometheusFor limits a query, and maxSeries the bytes of its answer.
	prometheusFor, maxSeries = 5 * time.Second, 64 << 10
)

// fill asks Prometheus how full a pool was in the 30 days before the judgement. It returns times in seconds, in order,
// each with a part of 1. Errors are in words.
func (v *View) fill(ctx context.Context, pool string) ([][2]float64, error) {
	if v.Prometheus == "" {
		return nil, problem{http.StatusNotFound, "the fill over time needs --prometheus"}
	}
	ctx, cancel := context.WithTimeout(ctx, prometheusFor)
	defer cancel()
	to := v.Judgement.Observation.Now.Unix()
	from := to - int64(fillOver.Seconds())
	values := url.Values{"start": {fmt.Sprint(from)}, "end": {fmt.Sprint(to)}, "step": {fmt.Sprint(fillStep.Seconds())},
		"query": {fmt.Sprintf(`1 - max(ip_reconcile_pool_addresses{state="free",pool=%q}) / `+
			`max(ip_reconcile_pool_addresses{state="usable",pool=%q})`, pool, pool)}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		strings.TrimRight(v.Prometheus, "/")+"/api/v1/query_range?"+values.Encode(), nil)
	var response *http.Response
	if err == nil {
		response, err = (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}).Do(request)
	}
	if x := (*url.Error)(nil); errors.As(err, &x) {
		err = x.Err // without the URL, which may have a password
	}
	if err != nil {
		return nil, problem{http.StatusBadGateway, fmt.Sprintf("Prometheus does not answer: %v", err)}
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []struct{ Values [][2]any } }
	}
	err = json.NewDecoder(io.LimitReader(response.Body, maxSeries)).Decode(&answer)
	points := [][2]float64{}
	switch all := answer.Data.Result; {
	case answer.Error != "":
		return nil, problem{http.StatusBadGateway, fmt.Sprintf("Prometheus reports an error: %.200q", answer.Error)}
	case err != nil || answer.Status != "success" || len(all) > 1:
		return nil, problem{http.StatusBadGateway,
			fmt.Sprintf("the answer, with code %d, is not one of Prometheus", response.StatusCode)}
	case len(all) == 1:
		next := float64(from)
		for _, sample := range all[0].Values { // at most one a step, since none before next is taken
			at, _ := sample[0].(float64)
			text, _ := sample[1].(string)
			part, err := strconv.ParseFloat(text, 64)
			if err == nil && part >= 0 && part <= 1 && at >= next && at <= float64(to) {
				points, next = append(points, [2]float64{at, part}), at+fillStep.Seconds()
			}
		}
	}
	return points, nil
}
