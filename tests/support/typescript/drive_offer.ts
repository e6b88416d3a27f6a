// Drives an offer from its creation to its rating through a client generated from /openapi.json.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

declare const process: { argv: string[]; exit(code: number): never };

type Offer = components["schemas"]["OfferView"];

const [baseUrl, key] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });

function result<T>(reply: { data?: T; error?: { detail: string } }): T {
  if (reply.data === undefined) {
    console.error(reply.error?.detail ?? "no response");
    process.exit(1);
  }
  return reply.data;
}

const campaign = result(
  await client.POST("/v1/campaigns", {
    body: {
      name: "Teas",
      arms: ["oolong", "sencha"],
      budget: 50_000,
      price_of_a_star: 200,
      policy: { kind: "ucb" },
      seed: 7,
    },
  }),
);
const made = result(
  await client.POST("/v1/campaigns/{campaign}/offers", {
    params: { path: { campaign: campaign.id }, header: { "Idempotency-Key": "first" } },
    body: { player: "ann" },
  }),
);
const offer = { params: { path: { offer: made.id } } };
result(await client.POST("/v1/offers/{offer}/accept", { ...offer, body: {} }));
const rated: Offer = result(
  await client.POST("/v1/offers/{offer}/rating", { ...offer, body: { rating: 4 } }),
);
const page = result(
  await client.GET("/v1/campaigns/{campaign}/offers", {
    params: { path: { campaign: campaign.id }, query: { state: "rated", player: "ann" } },
  }),
);
const listed = page.offers.map((one) => one.id);
console.log(JSON.stringify({ state: rated.state, rating: rated.rating, listed, made: made.id }));
