# An image with nothing but the static binary. Copy it into the image of your job:
#
#   COPY --from=pgleader /pgleader /usr/local/bin/pgleader
#   ENTRYPOINT ["pgleader", "run", "mail-worker", "--"]
#   CMD ["node", "worker.js"]

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /pgleader ./cmd/pgleader

FROM scratch
COPY --from=build /pgleader /pgleader
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
ENTRYPOINT ["/pgleader"]
