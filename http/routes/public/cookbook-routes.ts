import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { ServiceError } from '../../../core/errors.ts'
import { sumMicros, fromUsdc, toUsdc } from '../../../core/money.ts'
import {
  BADGES_PER_RECIPE,
  COOKBOOK_RECIPES,
  findCookbookRecipe,
  listRecipeTools,
  type CookbookRecipe,
} from '../../../domain/cookbook-recipes.ts'
import { acceptsHtml } from '../../accepts-html.ts'
import { sendHtmlPage } from '../../html-page-reply.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import {
  DateTimeSchema,
  errorResponses,
  schemaRef,
  toIsoTime,
} from '../../schemas/shared-schemas.ts'
import { sendSvg, svgOpenApiResponse } from './svg-reply.ts'

/** Routes of the cookbook: recipes, their badges, and the claim of one. */

const tags = ['discovery']
const Text = Type.String()
const params = Type.Object({
  slug: Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$', description: 'The slug of the recipe.' }),
})

const RecipeSchema = Type.Object(
  {
    slug: Text,
    title: Text,
    about: Text,
    tags: Type.Array(Text),
    tools: Type.Array(Text),
    price_usdc: Type.Number({
      description: 'The sum of the prices of its calls, beyond the free tier.',
    }),
    request: Type.Object({
      method: Type.Literal('POST'),
      url: Text,
      body: Type.Object({ calls: Type.Array(Type.Object({}, { additionalProperties: true })) }),
    }),
    claim_url: Text,
    badge_url: Text,
    badges: Type.Object({ awarded: Type.Integer(), of: Type.Integer() }),
  },
  { $id: 'Recipe' },
)

const listRecipes = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'listRecipes',
    summary: 'Recipes: requests that do a whole job',
    tags,
    response: {
      200: Type.Object({ recipes: Type.Array(schemaRef(RecipeSchema)), count: Type.Integer() }),
      ...errorResponses,
    },
  },
}

const BadgeSchema = Type.Object({
  recipe: Text,
  number: Type.Integer(),
  of: Type.Integer(),
  badge_url: Type.String({ description: 'An image with this number.' }),
  claimed_at: DateTimeSchema,
})

const claimBadge = {
  config: { auth: 'key', scope: 'tools', bound: 'acts' } as const,
  schema: {
    operationId: 'claimBadge',
    summary: 'Claim the badge of a recipe that you have run',
    description: `The first ${BADGES_PER_RECIPE} agents that have called every tool of the recipe get a numbered badge. Claiming again answers with the same badge.`,
    tags,
    params,
    response: { 200: BadgeSchema, ...errorResponses },
  },
}

const getRecipeBadge = {
  config: { auth: 'none', ignoresUnknownQuery: true } as const,
  schema: {
    operationId: 'getRecipeBadge',
    summary: 'The badge of a recipe: how many are awarded, or one of them by its number',
    tags,
    params,
    querystring: Type.Object({
      number: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: BADGES_PER_RECIPE,
          description: 'Of an awarded badge; without it the image shows how many are awarded.',
        }),
      ),
    }),
    response: { 200: svgOpenApiResponse, ...errorResponses },
  },
}

const page = { auth: 'none', ignoresUnknownQuery: true } as const
const getRecipePage = { config: page, schema: { hide: true, params } } as const

/** Recipes, as JSON and as pages, and their badges. */
export const cookbookRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { catalogue, clock, config, cookbook, once, pages } = app.services
  app.addSchema(RecipeSchema)

  const priceOf = ({ calls }: CookbookRecipe) =>
    toUsdc(
      sumMicros(
        calls.map(({ tool }) => fromUsdc(catalogue.toEntry(catalogue.get(tool)).price_usdc)),
      ),
    )

  async function readRecipes() {
    const awarded = await cookbook.counts()
    const at = (path: string) => `${config.publicUrl}/api/${path}`
    return COOKBOOK_RECIPES.map((recipe) => ({
      slug: recipe.slug,
      title: recipe.title,
      about: recipe.about,
      tags: [...recipe.tags],
      tools: listRecipeTools(recipe),
      price_usdc: priceOf(recipe),
      request: {
        method: 'POST' as const,
        url: at('pipeline'),
        body: { calls: recipe.calls.map((call) => ({ ...call })) },
      },
      claim_url: at(`cookbook/${recipe.slug}/claim`),
      badge_url: at(`cookbook/${recipe.slug}/badge.svg`),
      badges: { awarded: awarded.get(recipe.slug) ?? 0, of: BADGES_PER_RECIPE },
    }))
  }

  async function sendRecipes() {
    const recipes = await readRecipes()
    return { recipes, count: recipes.length }
  }

  app.get('/api/cookbook', listRecipes, sendRecipes)

  app.get('/cookbook', { config: page, schema: { hide: true } }, async (request, reply) => {
    reply.header('vary', 'Accept')
    if (!acceptsHtml(request)) return sendRecipes()
    return sendHtmlPage(reply, pages.recipeList(await readRecipes()))
  })

  app.get('/cookbook/:slug', getRecipePage, async (request, reply) => {
    const { slug } = recipeOf(request.params.slug)
    const recipe = (await readRecipes()).find((one) => one.slug === slug)
    reply.header('vary', 'Accept')
    if (recipe === undefined || !acceptsHtml(request)) return recipe
    return sendHtmlPage(reply, pages.recipe(recipe))
  })

  app.post('/api/cookbook/:slug/claim', claimBadge, async (request, reply) => {
    const { agentId } = request
    const idempotent = toIdempotentRequest(request)
    const recipe = recipeOf(request.params.slug)
    const missing = await cookbook.neverCalled(agentId, listRecipeTools(recipe))
    if (missing.length > 0)
      throw new ServiceError('recipe_not_run', {
        missing_tools: missing,
        remedy: { action: 'run_recipe', method: 'POST', url: `${config.publicUrl}/api/pipeline` },
      })
    return sendIdempotentReply(
      reply,
      once.runTransaction(idempotent, async (tx) => {
        const now = new Date(clock.now())
        const badge = await cookbook.award(tx, recipe.slug, agentId, BADGES_PER_RECIPE, now)
        if (badge === null)
          throw new ServiceError('limit_reached', {
            limit: BADGES_PER_RECIPE,
            detail: `All ${BADGES_PER_RECIPE} badges of this recipe are awarded.`,
          })
        const body = {
          recipe: recipe.slug,
          number: badge.number,
          of: BADGES_PER_RECIPE,
          badge_url: `${config.publicUrl}/api/cookbook/${recipe.slug}/badge.svg?number=${badge.number}`,
          claimed_at: toIsoTime(badge.claimedAt),
        }
        return { status: 200, body }
      }),
    )
  })

  app.get('/api/cookbook/:slug/badge.svg', getRecipeBadge, async ({ params, query }, reply) => {
    const { slug, title } = recipeOf(params.slug)
    const awarded = (await cookbook.counts()).get(slug) ?? 0
    const { number } = query
    if (number !== undefined && number > awarded)
      throw new ServiceError('badge_not_awarded', { recipe: slug, number, awarded })
    const shown = number === undefined ? `${awarded}` : `No. ${number}`
    const value = `${shown} of ${BADGES_PER_RECIPE}`
    return sendSvg(reply, pages.badge({ label: title, value, colour: 'gold' }))
  })
}

function recipeOf(slug: string): CookbookRecipe {
  const recipe = findCookbookRecipe(slug)
  if (recipe === undefined) throw new ServiceError('recipe_not_found')
  return recipe
}
