/** The ladder: folder -> what it may import (ARCHITECTURE.md, "Folders", draws what it does import). */
const house = {
  core: '',
  domain: 'core',
  machines: 'core domain',
  persistence: 'core domain',
  actors: 'core domain machines persistence',
  chain: 'core domain',
  payments: 'core domain actors persistence chain',
  memory: 'core domain persistence',
  providers: 'core domain',
  tools: 'core domain providers',
  calls: 'core domain actors payments tools providers',
  realtime: 'core domain persistence',
}
house.jobs = Object.keys(house).join(' ')
house.http = Object.keys(house).join(' ')
Object.assign(house, { web: 'core domain' })

const folders = [...Object.keys(house), 'app']
const under = (names) => `^(${names.join('|')})/`
const ban = (name, from, to) => ({ name, severity: 'error', from, to })
const line = ([from, may]) =>
  ban(
    `${from} imports only its line`,
    { path: under([from]) },
    { path: under(folders.filter((other) => other !== from && !may.split(' ').includes(other))) },
  )

module.exports = {
  forbidden: [
    ...Object.entries(house).map(line),
    ban(
      'the service does not import its tests or tools',
      { path: under(folders) },
      { path: '^(test|bench|scripts|chaos|examples|sdk)/' },
    ),
    ban('the SDK imports nothing', { path: '^sdk/' }, { pathNot: '^sdk/' }),
    ban(
      'examples import the SDK only',
      { path: '^examples/[\\w-]+\\.ts$' },
      { pathNot: '^sdk/|node_modules', dependencyTypesNot: ['core'] },
    ),
    ban('machines: no Node', { path: '^machines/' }, { dependencyTypes: ['core'] }),
    ban('machines: only xstate', { path: '^machines/' }, { path: 'node_modules/(?!xstate/)' }),
    ban(
      'database clients live in persistence',
      { pathNot: '^(persistence|jobs|test|bench|chaos|scripts)/' },
      { path: 'node_modules/(postgres|pg|redis|@redis|ioredis)/' },
    ),
    ban('no circles', {}, { circular: true }),
    ban('no orphans', { orphan: true, path: under(folders) }, {}),
    // The packages of interop/ are installed by its tests only; the reference loads a file that the station serves beside it.
    ban(
      'everything resolves',
      { pathNot: '^interop/|^web/assets/reference\\.js$' },
      { couldNotResolve: true },
    ),
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '^(dist|sdk/dist|\\.tap|\\.cache|\\.data)/' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'types', 'default'],
      extensions: ['.ts', '.js'],
    },
  },
}
