import {
  describeToolBuilder,
  isIdentifierPossiblePromptInjection,
  toModelSafeName,
  toModelSafeText,
} from './community/llm-safe-builder-text.ts'
import { isModelSafeValue, toModelSafeSchema } from './community/llm-safe-tool-schema.ts'
import type { CatalogueEntry } from './tool-ports.ts'

/** Selects the tools whose descriptions a language model may read, and marks the texts of strangers. */

const WITHHELD =
  'The description is withheld: it contains what may be meant to instruct a model. Read it at docs_url.'

/**
 * Returns the native tools and the verified ones; with `community` all of them. The description of a tool
 * that others built names its builder and has at most 500 characters of theirs; one that may instruct the
 * model is withheld. The texts in its schemas and its examples are treated alike.
 */
export function selectToolsForModels(
  entries: readonly CatalogueEntry[],
  { community }: { readonly community: boolean },
): CatalogueEntry[] {
  return entries
    .filter(({ type, builder }) => type === 'native' || builder?.verified === true || community)
    .filter(({ type, slug }) => type === 'native' || !isIdentifierPossiblePromptInjection(slug))
    .map((entry) => (entry.type === 'native' ? entry : toMarkedEntry(entry)))
}

function toMarkedEntry(entry: CatalogueEntry): CatalogueEntry {
  const builder = describeToolBuilder(entry)
  const text = toModelSafeText(entry.description) ?? WITHHELD
  return {
    ...entry,
    name: toModelSafeName(entry.name) ?? entry.slug,
    ...(entry.builder === undefined
      ? {}
      : { builder: { ...entry.builder, name: toModelSafeName(entry.builder.name) ?? 'withheld' } }),
    input_schema: toModelSafeSchema(entry.input_schema, builder),
    output_schema: toModelSafeSchema(entry.output_schema, builder),
    example_calls: entry.example_calls.filter(isModelSafeValue),
    description: `[Community tool by ${builder}. Its own words follow.] ${text}`,
  }
}
