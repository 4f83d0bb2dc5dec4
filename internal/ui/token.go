package ui

import (
	"crypto/subtle"
	"net/http"
)

// WithToken returns the page for those who know a token. They send it as a bearer token; the page takes it from the
// fragment of its own URL, which no request has. Other users of the machine can reach localhost, too.
func (p *Page) WithToken(token string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isKnown := subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+token)) == 1
		if !isKnown && !p.IsPublic(r.URL.Path) {
			w.Header().Set("Cache-Control", "no-store")
			http.Error(w, "the token is that of another start: open the URL that 'ip-reconcile ui' has printed",
				http.StatusUnauthorized)
			return
		}
		p.ServeHTTP(w, r)
	})
}
