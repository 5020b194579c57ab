FROM node:20.20.2-bookworm-slim@sha256:2cf067cfed83d5ea958367df9f966191a942351a2df77d6f0193e162b5febfc0 AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY . .
RUN npm run build && rm dist/.tsbuildinfo

# The embedded PostgreSQL is an optional package: a container is given DATABASE_URL instead.
FROM node:20.20.2-bookworm-slim@sha256:2cf067cfed83d5ea958367df9f966191a942351a2df77d6f0193e162b5febfc0 AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --omit=optional --ignore-scripts

FROM node:20.20.2-bookworm-slim@sha256:2cf067cfed83d5ea958367df9f966191a942351a2df77d6f0193e162b5febfc0
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8402 DATA_DIR=/data
WORKDIR /app
# The outermost wall of the sandbox; where the container may not make namespaces, a weaker one is taken.
# With `--build-arg BROWSER=chromium` pages are shown with their scripts: docs/browser.md.
ARG BROWSER=
RUN apt-get update && apt-get install --yes --no-install-recommends bubblewrap $BROWSER \
  && rm -rf /var/lib/apt/lists/*
RUN mkdir /data && chown node:node /data
COPY --from=packages /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY persistence/migrations persistence/migrations
COPY web/assets web/assets
COPY web/inspector web/inspector
COPY docs docs
COPY sdk/README.md sdk/README.md
COPY package.json *.md LICENSE ./
USER node
VOLUME /data
EXPOSE 8402
HEALTHCHECK --interval=5s --timeout=3s --start-period=20s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/api/network/health`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "--max-semi-space-size=16", "dist/app/main.js"]
