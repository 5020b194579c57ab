/** Files that crawlers read first. */

/** Everything may be read; the API is rate limited like for everybody. */
export const writeRobotsText = (publicUrl: string): string =>
  `User-agent: *\nAllow: /\n\nSitemap: ${publicUrl}/sitemap.xml\n`

/** The sitemap of the pages for people (https://www.sitemaps.org/protocol.html). */
export const writeSitemap = (publicUrl: string, paths: readonly string[]): string =>
  `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
${paths.map((path) => `  <url><loc>${new URL(`${publicUrl}${path}`).href.replaceAll('&', '&amp;')}</loc></url>`).join('\n')}
</urlset>
`
