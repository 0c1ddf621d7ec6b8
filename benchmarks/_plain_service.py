"""What one writes by hand: a LightGBM model behind FastAPI and uvicorn, in 30 lines.

python benchmarks/_plain_service.py MODEL.txt PORT
"""

import sys

import lightgbm
import numpy as np
import uvicorn
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

app = FastAPI()
booster = lightgbm.Booster(model_file=sys.argv[1])


class Documents(BaseModel):
    features: list[list[float]]


@app.post("/rank")
async def rank(documents: Documents) -> dict[str, list[float]]:
    scores = booster.predict(np.array(documents.features), num_threads=1)  # faster here than two threads
    return {"scores": scores.tolist(), "order": np.argsort(-scores, kind="stable").tolist()}


@app.post("/rank_raw")
async def rank_raw(request: Request) -> Response:
    rows = np.frombuffer(await request.body(), np.float32).reshape(-1, booster.num_feature())
    return Response(booster.predict(rows, num_threads=1).tobytes(), media_type="application/octet-stream")


uvicorn.run(app, port=int(sys.argv[2]), log_level="error")
